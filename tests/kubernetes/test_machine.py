"""Random operations on a few objects, on both servers: no answer may differ, nor what a watch tells of them afterwards.

Transcripts hold what somebody thought of; this finds what nobody did. Versions and uids are compared by which of the known ones
they are, so a write that should not have been one shows up at once. Three kinds stand for all: a plain one, one with lists that
merge by keys and with a scale, and a custom one with a status of its own.

Two things are left out, both on the side of kube-apiserver: a scale to the number that there is (it loses who owned it), and an
empty list of finalizers for a custom kind (it writes a new version of the same object).
"""

from __future__ import annotations

import itertools
import os
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.kubernetes.pair import Pair
from tests.kubernetes.tally import count
from tests.kubernetes.transcript import Case, Player, Step, differences

OPERATIONS: Final = int(os.environ.get("MODELPLANE_OPERATIONS", "2000"))
"""How many in all, about; 20,000 by hand after larger changes."""

LONGEST: Final = 50
_RUNS: Final = itertools.count()
MODELS: Final = "/apis/modelplane.ai/v1alpha1/namespaces/$ns/modelservices"
PATHS: Final = {"configmap": "$core/configmaps", "deployment": "$apps/deployments", "service": MODELS}
LAST: Final = "zz-last"
KINDS: Final = st.sampled_from(["configmap", "configmap", "deployment", "service"])
NAMES: Final = st.sampled_from(["a", "b"])
VALUES: Final = st.sampled_from(["1", "2", ""])
KEYS: Final = st.sampled_from(["k", "l", "m"])
DATA: Final = st.dictionaries(KEYS, VALUES, max_size=3)
WISHES: Final = st.dictionaries(KEYS, st.none() | VALUES, max_size=3)
FINALIZERS: Final = st.lists(st.sampled_from(["example.com/x", "example.com/y"]), max_size=2, unique=True)
MANAGERS: Final = st.sampled_from(["one", "two", "three"])
DRY: Final = st.sampled_from(["", "", "", "", "dryRun=All"])
VERSIONS: Final = st.sampled_from(["", "", "fresh", "stale"])
"""Which resource version a write says that it was made from."""

POLICIES: Final = st.sampled_from([None, None, "Background", "Foreground", "Orphan"])


def content(kind: str, data: dict[str, str]) -> dict[str, Any]:
    """The fields of an object beside its metadata, drawn from one map."""
    if kind == "configmap":
        return {"data": data}
    if kind == "service":
        endpoints = [
            {"selector": {"matchLabels": {"m": key}}, "weight": 3 if value else 1} for key, value in data.items()
        ]
        return {"spec": {"endpoints": endpoints or [{"selector": {"matchLabels": {"a": "b"}}}]}}
    containers = [{"name": key, "image": value or "i"} for key, value in data.items()] or [{"name": "c", "image": "i"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    return {"spec": {"replicas": len(data), "selector": {"matchLabels": {"a": "b"}}, "template": template}}


def typed(kind: str) -> dict[str, str]:
    kinds = {
        "configmap": ("v1", "ConfigMap"),
        "deployment": ("apps/v1", "Deployment"),
        "service": ("modelplane.ai/v1alpha1", "ModelService"),
    }
    return dict(zip(("apiVersion", "kind"), kinds[kind], strict=True))


def condition(type_: str, status: str) -> dict[str, str]:
    times = dict.fromkeys(("lastTransitionTime",), "2020-01-01T00:00:00Z")
    return {"type": type_, "status": status, "reason": "Because", "message": "m", **times}


def machine(pair: Pair) -> type[RuleBasedStateMachine]:
    class BothServers(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            namespace, self._replicas = f"machine-{next(_RUNS)}", 3
            self._players = Player(pair.ours, namespace), Player(pair.real, namespace)
            for player in self._players:
                player.play(Case(case="machine", reason="", steps=()))
                found = player.endpoint.send("GET", f"/api/v1/namespaces/{namespace}").body
                player.saved["beginning"] = found["metadata"]["resourceVersion"]

        def _both(self, send: str, body: Any = None, type_: str | None = None, only: tuple[str, ...] = ()) -> None:
            step = Step(send=send, body=body, type=type_, only=only)
            ours, real = (player.step(step) for player in self._players)
            count("random operations")
            for player in self._players:
                self._learn(player)
            found = list(differences(ours, real))
            assert not found, f"{send} {body}\n" + "\n".join(
                f"{at}\n  ours: {one}\n  real: {other}" for at, one, other in found
            )

        def _learn(self, player: Player) -> None:
            """Remember the last two versions of every object, and its uid, for requests that name them."""
            obj = player.last.body if player.last and isinstance(player.last.body, dict) else {}
            metadata = obj.get("metadata") or {}
            if player.last is None or player.last.status >= 300 or "resourceVersion" not in metadata:
                return
            if obj["kind"] in ("Scale", "Status") or obj["kind"].endswith("List") or "name" not in metadata:
                return
            known, place = player.saved, f"_{obj['kind'].lower()}_{metadata['name'].replace('-', '_')}"
            if known.get(f"fresh{place}") != metadata["resourceVersion"]:
                known[f"stale{place}"] = known.get(f"fresh{place}", "1")
                known[f"fresh{place}"] = metadata["resourceVersion"]
            known[f"uid{place}"] = metadata["uid"]

        def _version(self, kind: str, name: str, which: str) -> dict[str, str]:
            """A resourceVersion for a request, if it is to have one that both servers know."""
            variable = f"{which}_{typed(kind)['kind'].lower()}_{name}"
            known = all(variable in player.saved for player in self._players)
            return {"resourceVersion": f"${variable}"} if which and known else {}

        @rule(kind=KINDS, name=NAMES, data=DATA, labels=DATA, finalizers=FINALIZERS, dry=DRY)
        def create(self, kind: str, name: str, data: Any, labels: Any, finalizers: Any, dry: str) -> None:
            metadata = {"name": name, "labels": labels, "finalizers": finalizers}
            self._both(f"POST {PATHS[kind]}?{dry}", {**typed(kind), "metadata": metadata, **content(kind, data)})

        @rule(kind=KINDS, data=DATA, labels=DATA, dry=DRY)
        def create_with_a_generated_name(self, kind: str, data: Any, labels: Any, dry: str) -> None:
            body = {**typed(kind), "metadata": {"generateName": "gen-", "labels": labels}, **content(kind, data)}
            self._both(f"POST {PATHS[kind]}?{dry}", body)
            for player in self._players:
                assert player.last
                player.saved["generated"] = player.last.body["metadata"]["name"]
            # Its name is drawn, and so is its place in lists: it goes again before anybody makes one.
            self._both(f"DELETE {PATHS[kind]}/$generated", only=("kind", "status", "reason"))

        @rule(kind=KINDS, name=NAMES, data=DATA, labels=DATA, version=VERSIONS, dry=DRY)
        def replace(self, kind: str, name: str, data: Any, labels: Any, version: str, dry: str) -> None:
            metadata = {"name": name, "labels": labels, **self._version(kind, name, version)}
            self._both(f"PUT {PATHS[kind]}/{name}?{dry}", {**typed(kind), "metadata": metadata, **content(kind, data)})

        @rule(kind=KINDS, name=NAMES, labels=WISHES, notes=WISHES, version=VERSIONS, dry=DRY)
        def merge(self, kind: str, name: str, labels: Any, notes: Any, version: str, dry: str) -> None:
            metadata = {"labels": labels, "annotations": notes, **self._version(kind, name, version)}
            self._both(f"PATCH {PATHS[kind]}/{name}?{dry}", {"metadata": metadata}, "merge")

        @rule(name=NAMES, data=WISHES, manager=MANAGERS)
        def merge_data(self, name: str, data: Any, manager: str) -> None:
            self._both(f"PATCH $core/configmaps/{name}?fieldManager={manager}", {"data": data}, "merge")

        @rule(kind=KINDS, name=NAMES, finalizers=FINALIZERS)
        def hold(self, kind: str, name: str, finalizers: Any) -> None:
            self._both(f"PATCH {PATHS[kind]}/{name}", {"metadata": {"finalizers": finalizers or None}}, "merge")

        @rule(kind=KINDS, name=NAMES, labels=WISHES, drop=st.booleans())
        def strategic(self, kind: str, name: str, labels: Any, drop: bool) -> None:
            metadata = {"labels": {**labels, **({"$patch": "replace"} if drop else {})}}
            self._both(f"PATCH {PATHS[kind]}/{name}", {"metadata": metadata}, "strategic")

        @rule(name=NAMES, container=KEYS, image=VALUES, drop=st.booleans(), order=st.permutations(["k", "l"]))
        def strategic_lists(self, name: str, container: str, image: str, drop: bool, order: Any) -> None:
            one = {"name": container, **({"$patch": "delete"} if drop else {"image": image or "i"})}
            spec: dict[str, Any] = {"containers": [one]}
            if image == "2":
                spec["$setElementOrder/containers"] = [{"name": each} for each in dict.fromkeys([*order, container])]
            self._both(f"PATCH $apps/deployments/{name}", {"spec": {"template": {"spec": spec}}}, "strategic")

        @rule(
            name=NAMES, op=st.sampled_from(["add", "replace", "remove", "test", "copy", "move"]), key=KEYS, value=VALUES
        )
        def operate(self, name: str, op: str, key: str, value: str) -> None:
            operation = {"op": op, "path": f"/data/{key}", "value": value, "from": "/data/k"}
            wanted = {"copy": ("from",), "move": ("from",), "remove": ()}.get(op, ("value",))
            last = {k: v for k, v in operation.items() if k in ("op", "path", *wanted)}
            self._both(f"PATCH $core/configmaps/{name}", [last], "json")

        @rule(kind=KINDS, name=NAMES, data=DATA, labels=DATA, manager=MANAGERS, force=st.booleans(), dry=DRY)
        def apply(self, kind: str, name: str, data: Any, labels: Any, manager: str, force: bool, dry: str) -> None:
            body = {**typed(kind), "metadata": {"name": name, "labels": labels}, **content(kind, data)}
            query = f"fieldManager={manager}&force={str(force).lower()}&{dry}"
            self._both(f"PATCH {PATHS[kind]}/{name}?{query}", body, "apply")

        @rule(
            name=NAMES,
            manager=MANAGERS,
            type_=st.sampled_from(["Ready", "Other"]),
            status=st.sampled_from(["True", "False"]),
        )
        def apply_status(self, name: str, manager: str, type_: str, status: str) -> None:
            body = {
                **typed("service"),
                "metadata": {"name": name},
                "status": {"conditions": [condition(type_, status)]},
            }
            self._both(f"PATCH {MODELS}/{name}/status?fieldManager={manager}", body, "apply")

        @rule(name=NAMES, replicas=st.integers(0, 3), version=VERSIONS, junk=st.booleans())
        def replace_status(self, name: str, replicas: int, version: str, junk: bool) -> None:
            metadata = {"name": name, **self._version("deployment", name, version)}
            if junk:
                metadata["labels"] = {"status": "writes-labels-too"}  # type: ignore[assignment]
            body = {**content("deployment", {}), "metadata": metadata, "status": {"replicas": replicas}}
            self._both(f"PUT $apps/deployments/{name}/status", body)

        @rule(name=NAMES, valid=st.sampled_from([True, True, False]), manager=MANAGERS)
        def scale(self, name: str, valid: bool, manager: str) -> None:
            self._replicas += 1
            patch = {"spec": {"replicas": self._replicas if valid else -1}}
            self._both(f"PATCH $apps/deployments/{name}/scale?fieldManager={manager}", patch, "merge")

        @rule(kind=KINDS, name=NAMES, policy=POLICIES, version=VERSIONS, uid=st.booleans(), dry=DRY)
        def delete(self, kind: str, name: str, policy: str | None, version: str, uid: bool, dry: str) -> None:
            preconditions = self._version(kind, name, version)
            variable = f"uid_{typed(kind)['kind'].lower()}_{name}"
            if uid and all(variable in player.saved for player in self._players):
                preconditions["uid"] = f"${variable}"
            body: dict[str, Any] = {"preconditions": preconditions} if preconditions else {}
            if policy:
                body["propagationPolicy"] = policy
            if dry:
                body["dryRun"] = ["All"]
            self._both(f"DELETE {PATHS[kind]}/{name}", body or None)

        @rule(kind=KINDS, key=KEYS, value=VALUES, policy=POLICIES)
        def delete_collection(self, kind: str, key: str, value: str, policy: str | None) -> None:
            query = f"labelSelector={key}={value}" + (f"&propagationPolicy={policy}" if policy else "")
            self._both(
                f"DELETE {PATHS[kind]}?{query}", only=("kind", "items.0.metadata.labels", "items.1.metadata.labels")
            )

        @rule(kind=KINDS, name=NAMES, version=VERSIONS)
        def get(self, kind: str, name: str, version: str) -> None:
            known = self._version(kind, name, version).get("resourceVersion", "")
            self._both(f"GET {PATHS[kind]}/{name}?resourceVersion={known}")

        @rule(kind=KINDS, selector=st.sampled_from(["k=1", "k!=1", "k in (1,2)", "k notin (2)", "!k", "k,l", "k=", ""]))
        def find(self, kind: str, selector: str) -> None:
            only = tuple(
                f"items.{at}.{what}" for at in range(4) for what in ("metadata.labels", "spec", "data", "status")
            )
            self._both(
                f"GET {PATHS[kind]}?labelSelector={selector.replace(' ', '+')}&fieldSelector=metadata.name!=x",
                only=only,
            )

        def teardown(self) -> None:
            """What watches tell of it all: every change since the beginning, of all objects and of those with a label."""
            if not hasattr(self, "_players"):
                return
            for kind, path in PATHS.items():
                last = {**typed(kind), "metadata": {"name": LAST, "labels": {"k": "1"}}, **content(kind, {})}
                self._both(f"POST {path}", last, only=("kind",))
                for selector in ("", "&labelSelector=k=1"):
                    query = f"watch=true&resourceVersion=$beginning&timeoutSeconds=20{selector}"
                    step = Step(send=f"GET {path}?{query}", ends=LAST)
                    ours, real = (player.step(step) for player in self._players)
                    count("events of watches", len(real["body"]))
                    found = list(differences(ours, real))
                    assert not found, f"{kind} {selector}: {found}"

    return BothServers


@pytest.mark.timeout(900)
def test_no_sequence_of_operations_tells_the_servers_apart(pair: Pair) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    wanted = settings(
        max_examples=max(1, OPERATIONS // LONGEST), stateful_step_count=LONGEST, deadline=None, suppress_health_check=checks,
        derandomize=True, database=None, phases=[Phase.generate],  # a failure is read as it came: shrinking takes minutes
    )  # fmt: skip
    run_state_machine_as_test(machine(pair), settings=wanted)
