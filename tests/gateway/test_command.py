"""The command's arguments, kept ports, and where sockets lie."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from modelplane.cli.gateway import command
from modelplane.errors import PermanentError
from modelplane.gateway.ports import KeptPorts
from modelplane.gateway.proxies import forget_sockets, socket_directory
from modelplane.gateway.serve import _folders

WRONG = {
    "no cluster": ((), "name a cluster"),
    "a cluster without name": (("--cluster", "file"), "is not NAME=KUBECONFIG"),
    "a name with a slash": (("--cluster", "a/b=file"), "is not NAME=KUBECONFIG"),
    "one name twice": (("--cluster", "a=x", "--cluster", "a=y"), "needs a name of its own"),
    "the front door's name": (("--control", "x", "--cluster", "control=y"), "needs a name of its own"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_say_what_is_wrong(case: str, tmp_path: Path) -> None:
    arguments, words = WRONG[case]
    result = CliRunner().invoke(command, ["--data-dir", str(tmp_path), *arguments])
    assert result.exit_code == 2
    assert words in result.output


def test_a_kubeconfig_that_cannot_be_read_ends_the_command_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("clusters: 1")
    result = CliRunner().invoke(
        command, ["--data-dir", str(tmp_path / "data"), "--kubeconfig", str(tmp_path / "kubeconfig")]
    )
    assert result.exit_code == 1
    assert "kubeconfig" in result.output


def test_a_port_is_kept_over_restarts_and_is_nobody_else_s(tmp_path: Path) -> None:
    ports = KeptPorts(tmp_path / "ports.json")
    first, second = ports.take("a"), ports.take("b")
    assert first != second
    again = KeptPorts(tmp_path / "ports.json")
    assert (again.take("a"), again.get("b"), again.get("c")) == (first, second, None)


def test_the_wish_is_granted_once_if_the_port_is_free(tmp_path: Path) -> None:
    ports = KeptPorts(tmp_path / "ports.json")
    with socket.create_server(("127.0.0.1", 0)) as opened:
        wish = opened.getsockname()[1]
        assert ports.take("taken", wish) != wish
    assert ports.take("free", wish) == wish
    assert ports.take("late", wish) != wish


def test_a_kept_port_that_a_stranger_took_is_given_up_but_not_one_of_our_own_proxy(tmp_path: Path) -> None:
    ports = KeptPorts(tmp_path / "ports.json")
    port = ports.take("a")
    with socket.create_server(("127.0.0.1", port)):
        assert ports.take("a", ours=True) == port
        moved = ports.take("a")
    assert moved != port
    assert KeptPorts(tmp_path / "ports.json").get("a") == moved


def test_a_deep_directory_for_temporary_files_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("t" * 100)))
    folder = socket_directory(tmp_path / ("x" * 100))
    assert len(str(folder)) < 60, "a socket's path has to fit into 107 bytes"


def test_sockets_of_a_deep_directory_lie_somewhere_short_that_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    short = Path(tempfile.mkdtemp(prefix="mp-", dir="/tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(short))
    folder = socket_directory(deep)
    assert folder.parent == short
    assert socket_directory(tmp_path / "y" / ".." / ("x" * 100)) == folder
    assert _folders(deep) == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    forget_sockets(short)
    assert short.exists(), "what is no stand-in stays"
    forget_sockets(deep)
    assert not folder.exists()
    assert _folders(deep) == folder
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermanentError, match="belongs to somebody else"):
        _folders(deep)
    shutil.rmtree(short)
