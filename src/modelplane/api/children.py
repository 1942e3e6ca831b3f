"""The inventory of remote objects: what a parent has put, or is about to put, on clusters that garbage collection cannot see.

An entry is written to the parent's status before the object is applied, so that nothing is ever left behind unknown.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from modelplane.api.shape import Shape, atomic


class ChildRecord(Shape, frozen=True, kw_only=True):
    """One object of ours on a cluster."""

    key: str = ""
    """The composer's key of the child."""
    cluster: str
    """The InferenceCluster that the object is on."""
    api_version: str
    """API version of the object."""
    kind: str
    """Kind of the object."""
    namespace: str = ""
    """Namespace of the object; empty for a cluster-scoped kind."""
    name: str
    """Name of the object."""
    uid: str = ""
    """UID of the object, once it is known."""


Children: TypeAlias = Annotated[tuple[ChildRecord, ...], atomic()]
