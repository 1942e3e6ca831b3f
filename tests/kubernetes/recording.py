"""A pytest plugin that writes down every composition of every test: `python -m pytest -p tests.kubernetes.recording`.

It stands before the composers themselves, so a case that somebody adds is recorded without being listed anywhere. One line of JSON
for each pass for a real cluster: the test, the parent's kind, the objects as the host would apply them (with its marks), and the
status as the host would write it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final

import msgspec
import pytest

from modelplane.api.meta import Object
from modelplane.compose.contract import Composition, World
from modelplane.compose.registry import COMPOSERS
from modelplane.control.ownership import Owner
from modelplane.control.status import Overlay, next_status
from modelplane.control.want import wants

OUTPUT: Final = "MODELPLANE_RECORDING"
"""Names the file in the environment."""
CONTROL_PLANE: Final = "5f0c1f0e-0000-4000-8000-000000000001"
NOW: Final = "2026-01-01T00:00:00Z"


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """One wanted object: where it goes (empty for the control cluster), and which of its fields cannot change in place."""

    cluster: str
    manifest: Object
    immutable: tuple[str, ...]


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a composer."""

    test: str
    kind: str
    made: tuple[Made, ...]
    status: Object


def pytest_configure(config: pytest.Config) -> None:
    path = Path(os.environ[OUTPUT])
    for composer in COMPOSERS.values():
        setattr(composer, "compose", _recorded(composer.compose, path))  # noqa: B010 - its type has no settable methods


def _recorded(compose: Callable[[Object, World], Composition], path: Path) -> Callable[[Object, World], Composition]:
    @wraps(compose)
    def recording(xr: Object, world: World) -> Composition:
        made = compose(xr, world)
        if made.children and world.host.simulated:
            return made  # for clusters that take what no real one would, such as loopback addresses
        with path.open("ab") as lines:
            lines.write(msgspec.json.encode(_pass(xr, made)) + b"\n")
        return made

    return recording


def _pass(xr: Object, made: Composition) -> Pass:
    # Tests make uids up; the server's are of this form, and so are the labels that are made of them.
    uid = str(uuid.uuid5(uuid.NAMESPACE_URL, str(xr["metadata"].get("uid"))))
    owner = Owner.of({**xr, "metadata": {**xr["metadata"], "uid": uid}}, CONTROL_PLANE)
    wanted = wants(made.children, owner)
    status = next_status(
        {"metadata": xr["metadata"]},
        fields=made.status,
        conditions=[*made.conditions, *([made.ready] if made.ready else [])],
        entries=[want.entry for want in wanted],
        overlay=Overlay(),
        complete=made.complete,
        now=NOW,
    )
    return Pass(
        test=os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0],
        kind=xr["kind"],
        made=tuple(
            Made(cluster=want.ref.cluster, manifest=want.manifest, immutable=want.immutable)
            for want in wanted
            if want.chart is None
        ),
        status=status,
    )


def read(path: Path) -> list[Pass]:
    decode = msgspec.json.Decoder(Pass).decode
    return [decode(line) for line in path.read_bytes().splitlines()]
