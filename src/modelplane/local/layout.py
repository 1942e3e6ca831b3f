"""Where the local fleet keeps its state: one data directory, the same paths at every start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from modelplane import processes


def default_data_dir() -> Path:
    """``modelplane`` in the user's state directory (XDG base directories; ~/.local/state where unset)."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "modelplane"


class Layout(msgspec.Struct, frozen=True):
    """Names the files of a data directory."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        """For the person: the control cluster first, then a context per simulated cluster."""
        return self.root / "kubeconfig"

    @property
    def fleet(self) -> Path:
        """The fleet that this directory was started with."""
        return self.root / "fleet.yaml"

    @property
    def servers(self) -> Path:
        """Which API servers wrote the state of this directory."""
        return self.root / "servers"

    @property
    def ports(self) -> Path:
        """Ports once chosen are kept, since kubeconfigs and Secrets hold them."""
        return self.root / "ports.json"

    @property
    def kubernetes_ports(self) -> Path:
        """The same of a fleet on real Kubernetes: of each of its servers."""
        return self.root / "kubernetes-ports.json"

    @property
    def control(self) -> Path:
        return self.root / "control"

    @property
    def control_kubeconfig(self) -> Path:
        return self.control / "admin.kubeconfig"

    @property
    def operator_kubeconfig(self) -> Path:
        return self.root / "operator" / "kubeconfig"

    @property
    def gateway(self) -> Path:
        return self.root / "gateway"

    def cluster(self, name: str) -> Path:
        return self.root / "clusters" / name

    def cluster_kubeconfig(self, name: str) -> Path:
        return self.cluster(name) / "admin.kubeconfig"

    def log(self, unit: str) -> Path:
        return self.root / "logs" / f"{unit}.log"

    def record(self, unit: str) -> Path:
        """Of a supervised process."""
        return self.root / "run" / f"{unit}.json"

    @property
    def supervisor(self) -> Path:
        """Record of the supervisor itself."""
        return self.root / "supervisor.json"

    def records(self) -> list[Path]:
        """Of every process but the supervisor: units, engines, Envoys."""
        return sorted(self.root.glob("**/run/*.json"))

    def running(self) -> Mapping[Path, processes.Record]:
        """The processes of now by their records, the supervisor's first; after a crash of that one there are the others."""
        found = {path: processes.recall(path) for path in (self.supervisor, *self.records())}
        return {path: record for path, record in found.items() if record is not None}
