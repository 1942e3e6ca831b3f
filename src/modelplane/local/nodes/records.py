"""What the node runtime remembers of a pod on disk, so that its successor finds engines, addresses and restart counts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from modelplane.processes import Record, remember


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a container's last run ended."""

    exit_code: int
    reason: str
    started: str
    finished: str
    message: str = ""


class PodRecord(msgspec.Struct, omit_defaults=True):
    """One pod of one of our nodes. Written whole at every change that has to survive."""

    uid: str
    namespace: str
    name: str
    node: str
    ip: str
    port: int = 0
    """Where the engine listens; 0 for a pod without one."""
    started: str = ""
    """When the pod was taken up (status.startTime)."""
    running_since: str = ""
    restarts: int = 0
    process: Record | None = None
    last: Ended | None = None
    waiting_until: float = 0.0
    """Unix time before which the engine is not started again."""
    delay: float = 0.0


class Records:
    """One directory per pod: `record.json`, `settings.json`, and a log per run."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def directory(self, uid: str) -> Path:
        return self._root / uid

    def log(self, uid: str, run: int) -> Path:
        return self.directory(uid) / f"{run}.log"

    def settings(self, uid: str) -> Path:
        return self.directory(uid) / "settings.json"

    def _process(self, uid: str) -> Path:
        """Where whoever tears a fleet down looks for processes that are left."""
        return self._root.parent / "run" / f"engine-{uid}.json"

    def save(self, record: PodRecord) -> None:
        directory = self.directory(record.uid)
        directory.mkdir(exist_ok=True)
        if record.process is not None:
            remember(self._process(record.uid), record.process)
        else:
            self._process(record.uid).unlink(missing_ok=True)
        scratch = directory / "record.tmp"
        scratch.write_bytes(msgspec.json.encode(record))
        scratch.replace(directory / "record.json")

    def all(self) -> Iterator[PodRecord]:
        """Every readable record; a directory without one is left over from a crash in the middle and is removed."""
        for directory in sorted(self._root.iterdir()):
            try:
                yield msgspec.json.decode((directory / "record.json").read_bytes(), type=PodRecord)
            except (OSError, msgspec.MsgspecError):
                shutil.rmtree(directory, ignore_errors=True)

    def remove(self, uid: str) -> None:
        self._process(uid).unlink(missing_ok=True)
        shutil.rmtree(self.directory(uid), ignore_errors=True)
