"""The inventory of a parent: what it has made, or is about to make, and where.

An entry for another cluster, where garbage collection does not look, is written to the parent's status before the object is
applied, so that nothing is ever left behind unknown.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from modelplane.api.shape import Shape, atomic


class ChildRecord(Shape, frozen=True, kw_only=True):
    """One object of ours on a cluster."""

    key: str = ""
    """The composer's key of the child."""
    cluster: str
    """The InferenceCluster that the object is on; empty for the control cluster."""
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
    retain: bool | None = None
    """The object stays when its parent goes."""
    shared: bool | None = None
    """Other parents use the object too; it goes with the last of them."""


Children: TypeAlias = Annotated[tuple[ChildRecord, ...], atomic()]
