"""A data directory is started only with the servers that wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelplane.errors import PermanentError
from modelplane.local import origin
from modelplane.local.fleet import LocalFleet
from modelplane.local.fleet_spec import TWO_REGIONS
from modelplane.local.layout import Layout
from modelplane.local.origin import EMBEDDED, OtherServers

OLD, NEW = "Kubernetes 1.36.3", "Kubernetes 1.37.0"


def prints(folder: Path, text: str) -> Path:
    """A folder whose kube-apiserver says this about its version."""
    folder.mkdir()
    script = folder / "kube-apiserver"
    script.write_text(f"#!/bin/sh\necho '{text}'\n")
    script.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("before", "now", "names", "reason"),
    [
        (EMBEDDED, OLD, ["embedded", OLD, "without --kubernetes"], "etcd does not have what our store has"),
        (OLD, EMBEDDED, [OLD, "embedded", f"a folder of {OLD}"], "our store does not have what etcd has"),
        (OLD, NEW, [OLD, NEW, f"a folder of {OLD}"], "another release may not read what this one stored"),
    ],
)
def test_a_directory_of_other_servers_is_refused_with_what_to_do(
    tmp_path: Path, before: str, now: str, names: list[str], reason: str
) -> None:
    layout = Layout(tmp_path / "state")
    origin.claim(layout, before)
    with pytest.raises(OtherServers) as refused:
        origin.claim(layout, now)
    for text in (*names, str(layout.root), "--data-dir", "down --purge"):
        assert text in str(refused.value), reason
    origin.claim(layout, before)
    assert origin.of(layout) == before


def test_a_refused_fleet_leaves_the_directory_alone(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    origin.claim(layout, OLD)
    with pytest.raises(OtherServers):
        LocalFleet(layout, TWO_REGIONS, print)
    assert [path.name for path in tmp_path.iterdir()] == ["servers"]


def test_a_directory_without_a_note_is_told_by_its_store(tmp_path: Path) -> None:
    nobodys, ours, theirs = (Layout(tmp_path / name) for name in ("nobodys", "ours", "theirs"))
    ours.control.mkdir(parents=True)
    (ours.control / "store.db").touch()
    (theirs.control / "etcd").mkdir(parents=True)
    assert origin.of(nobodys) is None
    for layout, other in ((ours, OLD), (theirs, EMBEDDED)):
        with pytest.raises(OtherServers):
            origin.check(layout, other)
    origin.claim(ours, EMBEDDED)
    origin.claim(theirs, OLD)
    assert origin.of(theirs) == OLD, "from now on its version is known"


def test_the_release_is_what_the_binary_says(tmp_path: Path) -> None:
    assert origin.kubernetes(prints(tmp_path / "a", "Kubernetes v1.36.3")) == "Kubernetes 1.36.3"
    with pytest.raises(PermanentError, match="make kubernetes"):
        origin.kubernetes(prints(tmp_path / "b", "hello"))
    with pytest.raises(PermanentError, match="make kubernetes"):
        origin.kubernetes(tmp_path / "nowhere")
