"""What a composer takes and gives, the same in every host.

A composer is a module with `KIND`, `reads(xr, known)` and `compose(xr, world)`. It is ordinary code over values: the
host answers its reads, calls it, and carries out what it returned. The trade: a composer can never look at anything
that it did not ask for, and in return the reads *are* its watch set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import msgspec

from modelplane.api.meta import GVK, Condition, Object

# --- reads -----------------------------------------------------------------------------------------------------


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the world: one object by name, or a list by labels.

    ``cluster`` None is the control cluster, else the name of an InferenceCluster. ``namespace`` None means a
    cluster-scoped kind or, in a list, all namespaces. ``project`` names the parts that matter to the reader, as dotted paths
    from the object's root (``spec``, ``metadata.labels``, ``status.conditions[Ready]``); a change elsewhere does not wake it.
    ``wakes`` False leaves waking to the host's planner, which knows whom a change of the fleet can affect.
    """

    kind: GVK
    name: str | None = None
    namespace: str | None = None
    cluster: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    project: tuple[str, ...] = ("metadata.labels", "metadata.deletionTimestamp", "spec", "status")
    wakes: bool = True

    @property
    def is_list(self) -> bool:
        return self.name is None


class Pending(msgspec.Struct, frozen=True):
    """Not answered yet: the cache behind the read has not synchronised."""


class Absent(msgspec.Struct, frozen=True):
    """Answered: there is no such object."""


class Unavailable(msgspec.Struct, frozen=True):
    """Cannot be answered now. ``reason`` is a condition reason such as Unreachable, Unauthorized or CredentialMissing;
    ``since`` an RFC 3339 time, empty where there is none; ``message`` tells the person what to do."""

    reason: str
    since: str
    message: str = ""


class Found(msgspec.Struct, frozen=True):
    """One object. A list read answers `FoundAll`."""

    object: Object


class FoundAll(msgspec.Struct, frozen=True):
    """Every object that the list read selects, ordered by namespace and name."""

    objects: tuple[Object, ...]

    def __iter__(self) -> Iterator[Object]:
        return iter(self.objects)


Answer: TypeAlias = Pending | Absent | Unavailable | Found | FoundAll


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """A child of this parent as last seen: the bare manifest, never a wrapper."""

    manifest: Object
    ready: bool
    stale_since: str | None = None
    """Set when the child's cluster cannot be reached now: the time of the last good look."""


class World(Protocol):
    """What a composer may look at. Asking for something that `reads` did not name is a programming error (KeyError)."""

    def answer(self, read: Read) -> Answer: ...

    @property
    def observed(self) -> Mapping[str, Observed]:
        """This parent's own children by key, charts included: a chart's ``ready`` says that its release is deployed, its
        manifest is whatever the host keeps about the release (a Helm release Secret)."""
        ...

    def place(self, request: Any) -> Any:
        """One serial step of the host's planner: `plan.PlacementRequest` -> `plan.Plan`, committed to the ledger."""
        ...

    @property
    def host(self) -> Host:
        """Parameters of the host that composers need, such as the port of a front door."""
        ...


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between hosts and is visible in composed objects."""

    name: str = "operator"
    """``local``, ``operator`` or ``crossplane``."""
    control_plane_uid: str = ""
    """UID of the control cluster's kube-system namespace; labels remote objects as ours."""
    now: str = ""
    """RFC 3339 time of this pass: the only clock that a composer has."""
    front_door_port: int = 8000
    """Port of the front door's listener. 8000 is the entry point inside Traefik, which its chart publishes as 80; a host
    that runs the gateway itself names the port that callers use."""
    cluster_gateway_port: int = 80
    """Port of a cluster gateway's listener, where `cluster_gateway_ports` has no entry for the cluster."""
    cluster_gateway_ports: Mapping[str, int] = {}
    """Kept free ports by InferenceCluster, for a host whose clusters share one machine."""

    installs_charts: bool = True
    """False where a person does, who is asked to in an event."""

    def gateway_port(self, cluster: str) -> int:
        return self.cluster_gateway_ports.get(cluster, self.cluster_gateway_port)

    @property
    def simulated(self) -> bool:
        """The host has the controllers of the known charts built in; objects that only configure such a chart mean nothing."""
        return self.name == "local"


# --- the composition --------------------------------------------------------------------------------------------


class OnCreate(msgspec.Struct, frozen=True):
    """Ready as soon as it exists."""


class ConditionTrue(msgspec.Struct, frozen=True):
    """Ready when the child's condition is True for its current generation."""

    type: str = "Ready"


class Cel(msgspec.Struct, frozen=True):
    """Ready when the expression over ``object`` is true."""

    expression: str


Ready: TypeAlias = OnCreate | ConditionTrue | Cel


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """An object that the parent wants to exist. ``key`` is its identity for life; ``target`` None is the control cluster, else
    an InferenceCluster's name; ``retain`` leaves it in place when the parent goes; ``immutable`` names dotted
    paths from the manifest's root (``spec.selector``, ``roleRef``) whose change means delete and create again."""

    key: str
    manifest: Object
    target: str | None = None
    ready: Ready = OnCreate()
    retain: bool = False
    immutable: tuple[str, ...] = ()
    shared: bool = False
    """Several parents may apply it (a mirrored namespace); goes with the last of them."""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A Helm release that the parent wants; how it is installed is the host's business."""

    key: str
    repository: str
    name: str
    version: str
    release: str
    namespace: str
    values: Mapping[str, Any] = {}
    target: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded once per change of (type, reason, message); with a ``cause``, of (type, reason, cause), so that figures which
    move in the message are no news, and once more when it holds again after it did not."""

    type: str  # Normal or Warning
    reason: str
    message: str
    cause: str = ""


class After(msgspec.Struct, frozen=True):
    """A deletion edge: ``later`` is deleted only once ``earlier`` is gone. Both are child keys or key prefixes ending in ``*``."""

    earlier: str
    later: str


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one pass.

    Only a ``complete`` pass may drop a child: an incomplete one adds and updates, and keeps what was there.
    `Composition.hold` changes no child and only writes conditions and status. ``status`` None leaves the status fields alone.
    """

    HOLD: ClassVar[str] = "hold"

    children: Sequence[Child | Chart] = ()
    status: Mapping[str, Any] | None = None
    conditions: Sequence[Condition] = ()
    events: Sequence[Event] = ()
    requeue_after: float | None = None
    deletion_order: Sequence[After] = ()
    complete: bool = True
    held: bool = False
    ready: Condition | None = None
    """The Ready condition when the kind decides it; None lets the host derive it from the children (never vacuously True
    unless the kind has no children by nature)."""

    @classmethod
    def hold(
        cls,
        conditions: Sequence[Condition],
        *,
        status: Mapping[str, Any] | None = None,
        events: Sequence[Event] = (),
        requeue_after: float | None = None,
        ready: Condition | None = None,
    ) -> Composition:
        """Nothing changes this pass but what is said about it."""
        return cls(
            conditions=conditions,
            status=status,
            events=events,
            requeue_after=requeue_after,
            ready=ready,
            complete=False,
            held=True,
        )


class Composer(Protocol):
    """The face of a composer module."""

    KIND: GVK

    def reads(self, xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
        """Everything this pass wants to look at. Asked again while answers give new reads, three times at most."""
        ...

    def compose(self, xr: Object, world: World) -> Composition: ...

    def deletion_order(self, xr: Object) -> Sequence[After]:
        """Known without looking at anything, so that deletion never depends on a lookup."""
        ...
