"""The server as a process: restarts, crashes, what is on disk before an answer leaves, and how fast it ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest

from modelplane.server.testing import ServerProcess, running_server, start_server
from tests.server.api import Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
ROUNDS = int(os.environ.get("MODELPLANE_KILL_ROUNDS", "20"))
WRITERS = 4


def test_a_restart_keeps_objects_port_token_and_certificates(data_dir: Path) -> None:
    with running_server(data_dir) as first:
        made = Api(first.kubeconfig).create(MAPS, config_map("a", x="1"))
        config = first.kubeconfig.read_text()
    with running_server(data_dir) as second:
        assert second.url == first.url
        assert second.kubeconfig.read_text() == config
        assert Api(second.kubeconfig).get(f"{MAPS}/a") == made


def test_a_watch_goes_on_after_a_restart_from_the_revision_that_it_had(data_dir: Path) -> None:
    with running_server(data_dir) as first:
        api = Api(first.kubeconfig)
        made = api.create(MAPS, config_map("a"))
        api.patch(f"{MAPS}/a", {"data": {"x": "1"}})
    with (
        running_server(data_dir) as second,
        Api(second.kubeconfig).watch(f"{MAPS}?watch=1&resourceVersion={made['metadata']['resourceVersion']}") as events,
    ):
        assert next(events)["object"]["data"] == {"x": "1"}


def test_sigterm_ends_open_watches_whole_and_the_server_with_them(data_dir: Path) -> None:
    """What is waited for too long is cut off, without its last chunk: whole ends are those that the server makes at once.

    So no clock is looked at, which a busy machine would move.
    """
    server = start_server(data_dir)
    api = Api(server.kubeconfig)
    watching = [api.connect(), api.connect()]
    for connection in watching:
        connection.request("GET", f"{MAPS}?watch=1", headers={"Authorization": f"Bearer {api.token}"})
    answers = [connection.getresponse() for connection in watching]
    api.create(MAPS, config_map("a"))
    for answer in answers:
        assert json.loads(answer.readline())["type"] == "ADDED"
    server.process.send_signal(signal.SIGTERM)
    for answer in answers:
        assert answer.read() == b"", "http.client raises IncompleteRead where the last chunk is missing"
    assert server.process.wait(60) == 0


def test_a_second_server_is_told_that_the_directory_is_taken(data_dir: Path) -> None:
    with running_server(data_dir), pytest.raises(RuntimeError, match="in use by another API server"):
        start_server(data_dir)


class Writer(threading.Thread):
    """Writes until the server is gone, and keeps what was acknowledged: the value of each key, and its revision."""

    def __init__(self, api: Api, number: int, start: int) -> None:
        super().__init__(daemon=True)
        self.api = api
        self.number = number
        self.count = start
        self.acknowledged: dict[str, tuple[str, str]] = {}
        self.maybe: tuple[str, str] | None = None

    def run(self) -> None:
        try:
            while True:
                self._write_one()
        except (OSError, http.client.HTTPException):
            return  # the server is gone; the write in flight may or may not have happened

    def _write_one(self) -> None:
        self.count += 1
        name, value = f"w{self.number}-{self.count % 7}", str(self.count)
        self.maybe = (name, value)
        if name in self.acknowledged:
            reply = self.api.call(
                "PATCH", f"{MAPS}/{name}", {"data": {"v": value}}, type_="application/merge-patch+json"
            )
        else:
            reply = self.api.call("POST", MAPS, config_map(name, v=value))
            if reply.code == 409:
                reply = self.api.call(
                    "PATCH", f"{MAPS}/{name}", {"data": {"v": value}}, type_="application/merge-patch+json"
                )
        assert reply.code in (200, 201), reply
        self.acknowledged[name] = (value, reply.body["metadata"]["resourceVersion"])
        self.maybe = None


@pytest.mark.timeout(600)
def test_kills_during_concurrent_writes_lose_no_acknowledged_write_and_repeat_none(data_dir: Path) -> None:
    count = highest = total = 0
    writers: list[Writer] = []
    for _ in range(ROUNDS):
        server = start_server(data_dir)
        _check(server, writers)
        writers = [Writer(Api(server.kubeconfig), number, count) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        while any(len(writer.acknowledged) < 2 for writer in writers) and all(w.is_alive() for w in writers):
            os.sched_yield()
        server.kill()
        for writer in writers:
            writer.join(20)
            count = max(count, writer.count)
        revisions = [int(revision) for w in writers for _, revision in w.acknowledged.values()]
        assert len(revisions) == len(set(revisions)), "no revision is given twice"
        assert min(revisions) > highest, "no revision is given again after a crash"
        highest = max(revisions)
        total += len(revisions)
    with running_server(data_dir) as server:
        _check(server, writers)
    assert total >= 2 * ROUNDS * WRITERS


def _check(server: ServerProcess, writers: list[Writer]) -> None:
    stored = {item["metadata"]["name"]: item for item in Api(server.kubeconfig).get(MAPS)["items"]}
    for writer in writers:
        for name, (value, revision) in writer.acknowledged.items():
            found = stored[name]["data"]["v"]
            if found == value:
                assert stored[name]["metadata"]["resourceVersion"] == revision, "the write happened once"
            else:
                assert writer.maybe == (name, found), f"{name}: acknowledged {value}, found {found}"


@pytest.mark.linux
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("strace") is None, reason="needs Linux and strace")
def test_a_finished_sync_lies_between_a_write_request_and_its_answer(data_dir: Path, tmp_path: Path) -> None:
    with running_server(data_dir):
        pass  # certificates and bootstrap objects are not the subject
    trace = tmp_path / "trace"
    calls = "fsync,fdatasync,pwrite64,write,writev,sendto,sendmsg,read,recvfrom,recvmsg"
    tracer = ["strace", "-f", "-qq", "-tt", "-y", "-s", "0", "-e", f"trace={calls}", "-o", str(trace)]
    server = start_server(data_dir, wrapper=tracer)
    try:
        api = Api(server.kubeconfig)
        for _ in range(3):
            api.get(MAPS)
        before = len(trace.read_text().splitlines())
        for number in range(10):
            api.create(MAPS, config_map(f"a{number}"))
    finally:
        _stop_traced(server)
    answers = _synced_answers(trace.read_text().splitlines()[before:])
    assert answers[:10] == [True] * 10


def _stop_traced(server: ServerProcess) -> None:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGTERM)
    server.process.wait(20)


def _synced_answers(lines: list[str]) -> list[bool]:
    """For each answer in turn, whether a sync finished between the request and it.

    Requests and answers are reads from and writes to the client's socket; one request at a time is in flight.
    """
    answers: list[bool] = []
    asked = synced = False
    for line in lines:
        is_socket = re.search(r"\((\d+)<(TCP|socket)", line) is not None
        if re.search(r"\b(read|recvfrom|recvmsg)(\(| resumed)", line) and is_socket and re.search(r"= [1-9]\d*$", line):
            asked, synced = True, False
        elif re.search(r"\b(fsync|fdatasync)(\(| resumed).*= 0$", line):
            synced = True
        elif re.search(r"\b(write|writev|sendto|sendmsg)\(", line) and is_socket and asked:
            answers.append(synced)
            asked = False
    return answers
