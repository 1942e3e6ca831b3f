"""A data directory that something else wrote into: the server says which file is wrong and what to do, or does without it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from modelplane.server.testing import running_server, start_server
from tests.server.api import Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
GARBAGE = b"\xff\xfe no file of ours"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that a server was stopped in."""
    path: Path = tmp_path_factory.mktemp("kept") / "data"
    with running_server(path, "--no-install-crds") as server:
        Api(server.kubeconfig).create(MAPS, config_map("a"))
    return path


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    shutil.copytree(kept, tmp_path / "data")
    return tmp_path / "data"


def refused(directory: Path) -> str:
    with pytest.raises(RuntimeError) as failure:
        start_server(directory, "--no-install-crds")
    assert "Traceback" not in str(failure.value)
    return " ".join(str(failure.value).split())


def test_a_damaged_store_is_named_with_what_to_do(copy: Path) -> None:
    for name in ("store.db-wal", "store.db-shm"):
        (copy / name).unlink(missing_ok=True)
    (copy / "store.db").write_bytes(GARBAGE * 500)
    said = refused(copy)
    assert f"{copy}/store.db cannot be read: file is not a database" in said
    assert "put back a copy of store.db, store.db-wal and store.db-shm, or move the three away" in said


def test_a_store_of_another_program_is_left_alone(copy: Path) -> None:
    import sqlite3

    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (copy / name).unlink(missing_ok=True)
    database = sqlite3.connect(copy / "store.db")
    database.execute("CREATE TABLE objects (path TEXT)")
    database.close()
    assert "store.db cannot be read: no such column: resource" in refused(copy)


@pytest.mark.parametrize("name", ["ca.crt", "serving.crt", "serving.key"])
def test_damaged_certificates_are_named_with_what_to_do(copy: Path, name: str) -> None:
    (copy / name).write_bytes(GARBAGE)
    said = refused(copy)
    assert f"the certificates in {copy} cannot be read" in said
    assert "move them and ca.key away: new ones are made" in said


@pytest.mark.parametrize("name", ["admin.token", "service-account.key"])
@pytest.mark.parametrize("content", [b"", GARBAGE], ids=["empty", "garbage"])
def test_a_secret_that_is_none_is_never_taken_for_one(copy: Path, name: str, content: bytes) -> None:
    (copy / name).write_bytes(content)
    assert f"{copy}/{name} holds no secret" in refused(copy)


def test_a_damaged_port_file_is_as_good_as_none(copy: Path) -> None:
    (copy / "port").write_bytes(GARBAGE)
    with running_server(copy, "--no-install-crds") as server:
        assert Api(server.kubeconfig).get(f"{MAPS}/a")["kind"] == "ConfigMap"
