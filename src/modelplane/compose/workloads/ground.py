"""Where one replica stands: the names that all its objects share. Made once per pass, read by every builder of an object."""

from __future__ import annotations

from typing import Final

import msgspec

from modelplane.api.engines import Role
from modelplane.compose.names import childname, host_name, object_name, service_name, suffixed

NAMESPACE_LABEL: Final = "modelplane.ai/namespace"
"""On a mirrored namespace: the namespace of the control cluster that it mirrors."""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """One ModelReplica on its cluster."""

    replica: str
    namespace: str
    """The replica's namespace on the control cluster; it is part of the public path."""
    deployment: str
    cluster: str
    cache: str | None = None
    """Name of the ModelCache that the replica mounts."""

    engines: tuple[str, ...] = ()
    """Names of the replica's engines, in order."""

    @property
    def remote_namespace(self) -> str:
        """The namespace on the cluster that mirrors the deployment's, so that two teams' equal names stay apart."""
        return childname("mp", self.namespace)

    @property
    def served_model(self) -> str:
        return f"{self.namespace}/{self.deployment}"

    @property
    def path(self) -> str:
        """The path prefix that the cluster's gateway knows the replica by."""
        return f"/{self.namespace}/{self.replica}/"

    @property
    def pool(self) -> str:
        return suffixed(self.replica, "pool")

    @property
    def picker(self) -> str:
        """Name of all the picker's objects; one of them is a Service, and it is a label value."""
        return service_name(suffixed(self.replica, "epp"))

    @property
    def cache_volume_claim(self) -> str | None:
        return None if self.cache is None else childname("modelcache", self.namespace, self.cache)

    def workload(self, engine: str) -> str:
        """Name of an engine's workload; ten hex digits where an engine before it, or the picker, has the short one."""
        name = self._workload(engine)
        taken = {self.picker, *(self._workload(other) for other in self._before(engine))}
        return self._workload(engine, digits=10) if name in taken else name

    def claim_template(self, engine: str, role: str) -> str:
        """Name of a member's claim template, kept apart from those of the engines before it in the same way."""
        name = self._template(engine, role)
        taken = {self._template(other, part) for other in self._before(engine) for part in Role}
        taken |= {self._template(engine, part) for part in list(Role)[: list(Role).index(Role(role))]}
        return self._template(engine, role, digits=10) if name in taken else name

    def _workload(self, engine: str, digits: int = 5) -> str:
        return host_name(childname(self.replica, engine, digits=digits))

    def _template(self, engine: str, role: str, digits: int = 5) -> str:
        return object_name(childname(self.replica, engine, role.lower(), "devices", digits=digits))

    def _before(self, engine: str) -> tuple[str, ...]:
        return self.engines[: self.engines.index(engine)] if engine in self.engines else ()
