"""Random operations on a few objects, on both servers: no answer may differ.

Transcripts hold what somebody thought of; this finds what nobody did. Versions and uids are compared by which of the known ones
they are, so a write that should not have been one shows up at once.
"""

from __future__ import annotations

import itertools
import os
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.kubernetes.pair import Pair
from tests.kubernetes.tally import count
from tests.kubernetes.transcript import Case, Player, Step, differences

OPERATIONS: Final = int(os.environ.get("MODELPLANE_OPERATIONS", "200"))
"""How many in all; 2,000 before a release."""

LONGEST: Final = 20
_RUNS: Final = itertools.count()
NAMES: Final = st.sampled_from(["a", "b"])
VALUES: Final = st.sampled_from(["1", "2", ""])
KEYS: Final = st.sampled_from(["k", "l", "m"])
DATA: Final = st.dictionaries(KEYS, VALUES, max_size=3)
FINALIZERS: Final = st.lists(st.sampled_from(["example.com/x", "example.com/y"]), max_size=2, unique=True)
MANAGERS: Final = st.sampled_from(["one", "two"])
DRY: Final = st.sampled_from(["", "", "", "dryRun=All"])


def machine(pair: Pair) -> type[RuleBasedStateMachine]:
    class BothServers(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            namespace = f"machine-{next(_RUNS)}"
            self._players = Player(pair.ours, namespace), Player(pair.real, namespace)
            for player in self._players:
                player.play(Case(case="machine", reason="", steps=()))

        def _both(self, send: str, body: Any = None, type_: str | None = None, only: tuple[str, ...] = ()) -> None:
            step = Step(send=send, body=body, type=type_, only=only)
            ours, real = (player.step(step) for player in self._players)
            count("random operations")
            assert list(differences(ours, real)) == [], (send, body)

        @rule(name=NAMES, data=DATA, finalizers=FINALIZERS, dry=DRY)
        def create(self, name: str, data: Any, finalizers: Any, dry: str) -> None:
            body = {"metadata": {"name": name, "finalizers": finalizers}, "data": data}
            self._both(f"POST $core/configmaps?{dry}", body)

        @rule(name=NAMES, data=DATA, labels=DATA)
        def replace(self, name: str, data: Any, labels: Any) -> None:
            self._both(f"PUT $core/configmaps/{name}", {"metadata": {"name": name, "labels": labels}, "data": data})

        @rule(name=NAMES, data=st.dictionaries(KEYS, st.none() | VALUES, max_size=3), dry=DRY)
        def merge(self, name: str, data: Any, dry: str) -> None:
            self._both(f"PATCH $core/configmaps/{name}?{dry}", {"data": data}, "merge")

        @rule(name=NAMES, finalizers=FINALIZERS)
        def hold(self, name: str, finalizers: Any) -> None:
            self._both(f"PATCH $core/configmaps/{name}", {"metadata": {"finalizers": finalizers}}, "merge")

        @rule(name=NAMES, labels=st.dictionaries(KEYS, st.none() | VALUES, max_size=3))
        def strategic(self, name: str, labels: Any) -> None:
            self._both(f"PATCH $core/configmaps/{name}", {"metadata": {"labels": labels}}, "strategic")

        @rule(name=NAMES, op=st.sampled_from(["add", "replace"]), key=KEYS, value=VALUES)
        def operate(self, name: str, op: str, key: str, value: str) -> None:
            patch = [{"op": "add", "path": "/data", "value": {}}, {"op": op, "path": f"/data/{key}", "value": value}]
            self._both(f"PATCH $core/configmaps/{name}", patch, "json")

        @rule(name=NAMES, data=DATA, labels=DATA, manager=MANAGERS, force=st.booleans(), dry=DRY)
        def apply(self, name: str, data: Any, labels: Any, manager: str, force: bool, dry: str) -> None:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}
            query = f"fieldManager={manager}&force={str(force).lower()}&{dry}"
            self._both(f"PATCH $core/configmaps/{name}?{query}", body, "apply")

        @rule(name=NAMES, policy=st.sampled_from(["", "Background", "Foreground", "Orphan"]), dry=DRY)
        def delete(self, name: str, policy: str, dry: str) -> None:
            query = f"propagationPolicy={policy}" if policy else ""
            self._both(f"DELETE $core/configmaps/{name}?{query}&{dry}")

        @rule(name=NAMES)
        def get(self, name: str) -> None:
            self._both(f"GET $core/configmaps/{name}")

        @rule(key=KEYS, value=VALUES)
        def find(self, key: str, value: str) -> None:
            only = ("items.0.metadata", "items.0.data", "items.1.metadata", "items.1.data")
            self._both(f"GET $core/configmaps?labelSelector={key}={value}", only=only)

    return BothServers


@pytest.mark.timeout(600)
def test_no_sequence_of_operations_tells_the_servers_apart(pair: Pair) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    wanted = settings(
        max_examples=max(1, OPERATIONS // LONGEST), stateful_step_count=LONGEST, deadline=None, suppress_health_check=checks,
        derandomize=True, database=None,
    )  # fmt: skip
    run_state_machine_as_test(machine(pair), settings=wanted)
