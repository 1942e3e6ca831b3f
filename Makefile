# One-word commands. Everything happens in a virtual environment of the checkout; make, Python and its venv module are enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test lint types imports generate current check coverage mutants docs fuzz kubernetes conformance bench bench-apply bench-plan bench-server clean

# What `make demo` needs: the command and the local fleet.
$(VENV)/.local: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the command and the local fleet into $(VENV); this happens once"
	@$(PIP) install --editable '.[local]'
	@$(BIN)/python -m compileall -q src
	@touch $@

# What developers need besides (dependency groups came with pip 25.1).
$(VENV)/.dev: $(VENV)/.local
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --editable '.[local]' --group dev
	@touch $@

demo: $(VENV)/.local
	@$(BIN)/modelplane demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy (2.4 at least) may crash, with 2 instead of 1, on what it kept of an earlier tree.
types: $(VENV)/.dev
	$(BIN)/mypy || { [ $$? = 2 ] && rm -rf .mypy_cache && $(BIN)/mypy; }

imports: $(VENV)/.dev
	$(BIN)/lint-imports

# CRDs, XRDs, roles, JSON Schemas and reference pages from the types; `current` says whether they are.
generate: $(VENV)/.dev
	$(BIN)/python scripts/generate.py
	$(BIN)/python scripts/generate_envoy_schema.py

# Ten thousand objects made from the schemas, three judges; then every property of the planner on fresh examples.
fuzz: export MODELPLANE_EXAMPLES ?= 3000
fuzz: $(VENV)/.dev
	MODELPLANE_FUZZ=10000 $(BIN)/python -m pytest -n 0 -s -q tests/api/test_fuzz.py
	MODELPLANE_FRESH=1 $(BIN)/python -m pytest -n auto -q tests/plan

current: $(VENV)/.dev
	$(BIN)/python scripts/generate.py --check
	$(BIN)/python scripts/generate_envoy_schema.py --check

check: lint types imports current

# Every line and every branch of the planner is run by a test, a few examples of each property included.
coverage: export MODELPLANE_EXAMPLES ?= 10
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n 0 -q --cov --cov-report=term tests/plan tests/rehearse --deselect tests/rehearse/test_reconciled.py

# Faults put into placing and matching, one at a time: does a test notice? Takes half an hour; `mutmut results` names survivors.
mutants: export MODELPLANE_EXAMPLES ?= 6
mutants: $(VENV)/.dev
	$(PIP) install 'mutmut>=3.8,<4'
	nice -n 19 $(BIN)/mutmut run

# Every command block of the pages is run, and their tables are compared with the code.
docs: $(VENV)/.dev
	$(BIN)/python -m pytest -n 0 -q tests/docs

# A real control plane as the judge of ours, built from Go modules into a cache; a second call does nothing.
KUBERNETES ?= 1.36.3
kubernetes:
	@scripts/kubernetes.sh $(KUBERNETES)

# What the judge says.
KUBERNETES_CACHE = $(or $(MODELPLANE_KUBERNETES_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/modelplane/kubernetes)
SUITE ?= tests/kubernetes tests/operator/test_chart.py
conformance: export MODELPLANE_KUBERNETES ?= $(wildcard $(KUBERNETES_CACHE)/$(KUBERNETES))
conformance: $(VENV)/.dev
	@test -n "$$MODELPLANE_KUBERNETES" || { echo "there is no Kubernetes $(KUBERNETES) to ask; \`make kubernetes\` builds it" >&2; exit 1; }
	$(BIN)/python -m pytest -n 0 -q $(SUITE)
	$(if $(and $(MODELPLANE_KUBERNETES),$(filter file,$(origin SUITE))),$(BIN)/python -m pytest -n 0 -q tests/e2e --kubernetes $(MODELPLANE_KUBERNETES))

bench: bench-apply bench-plan bench-server

# From kubectl apply to the first answer; writes benchmarks/results/apply.json and .svg.
bench-apply: $(VENV)/.dev
	$(BIN)/python -m benchmarks.apply

# Placing on fleets of 100 to 10,000 clusters; writes benchmarks/results/plan.json and .svg.
bench-plan: $(VENV)/.dev
	$(BIN)/python -m benchmarks.plan

# The embedded API server against etcd and kube-apiserver, under the load of a Go program; about four minutes. Writes
# benchmarks/results/server.json and .svg.
bench-server: kubernetes $(VENV)/.dev
	go build -C benchmarks/server_load -o $(KUBERNETES_CACHE)/server_load .
	$(BIN)/python -m benchmarks.server --kubernetes $(KUBERNETES_CACHE)/$(KUBERNETES) --load $(KUBERNETES_CACHE)/server_load

clean:
	rm -rf $(VENV)
