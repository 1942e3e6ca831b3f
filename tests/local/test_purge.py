"""`modelplane down --purge` removes what a fleet left, however far its start came, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from modelplane.cli import main
from modelplane.local import origin
from modelplane.local.layout import Layout


def purge(root: Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["down", "--purge", "--data-dir", str(root)])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["logs/up.log"], "a detached start that was refused before it chose a port"),
        (["logs/up.log", "servers"], "one that ended once it had claimed the directory"),
        (["ports.json", "kubernetes-ports.json"], "one whose binaries were not all there"),
    ],
)
def test_what_a_start_that_failed_has_written_is_removed(tmp_path: Path, files: list[str], reason: str) -> None:
    for name in files:
        path = tmp_path / "fleet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}" if name.endswith("json") else origin.EMBEDDED)
    code, said = purge(tmp_path / "fleet")
    assert code == 0, f"{reason}: {said}"
    assert not (tmp_path / "fleet").exists(), reason


@pytest.mark.parametrize("name", ["logs/app.log", "notes.txt", "run/nginx.pid"])
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, name: str) -> None:
    layout = Layout(tmp_path / "theirs")
    for path in (layout.root / name, layout.log("up")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    code, said = purge(layout.root)
    assert code == 1
    assert f"{layout.root} holds no fleet" in said
    assert (layout.root / name).exists()
