"""ModelReplica: one replica on its cluster: namespace, claims, workloads, pool, route, picker, and what its pods read.

Losing sight of the cluster changes conditions and no object: Ready becomes Unknown and the last observation stays. Ready counts
the workloads and the routing surface; whether the engines really answer is `EndpointAnswering`, which the host writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from modelplane.api.engines import Phase, ServingMode
from modelplane.api.labels import DEPLOYMENT
from modelplane.api.meta import Condition, Object
from modelplane.api.model_replica import (
    KIND as KIND,
)
from modelplane.api.model_replica import (
    ConditionType,
    ModelReplica,
    Reason,
    parse,
)
from modelplane.compose.conditions import AVAILABLE, READY, carries, false, lost, not_read, true, unknown
from modelplane.compose.contract import (
    Absent,
    After,
    Answer,
    Child,
    Composition,
    Event,
    Observed,
    Pending,
    Read,
    Unavailable,
    World,
)
from modelplane.compose.kinds import INFERENCE_CLUSTER, NAMESPACE, manifest
from modelplane.compose.workloads import gang, standalone
from modelplane.compose.workloads.claims import claim_templates
from modelplane.compose.workloads.disaggregation import disaggregated, engine_of, serving_container
from modelplane.compose.workloads.ground import NAMESPACE_LABEL, Ground
from modelplane.compose.workloads.picker import block_size, picker, picker_config
from modelplane.compose.workloads.references import Reference, copies, missing, references
from modelplane.compose.workloads.surface import surface
from modelplane.errors import InvalidObject

NAMESPACE_KEY: Final = "namespace"


def reads(xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
    replica = parse(xr)
    ground = _ground(replica)
    named = (reference.read(ground.namespace) for reference in references(replica.spec.engines))
    return frozenset({_cluster(ground), _sight(ground), *named})


def compose(xr: Object, world: World) -> Composition:
    replica = parse(xr)
    ground = _ground(replica)
    cluster = world.answer(_cluster(ground))
    if isinstance(cluster, Pending | Absent | Unavailable):
        return _waiting_for_cluster(ground, cluster)
    bare = [engine.name for engine in replica.spec.engines if any(m.template.spec is None for m in engine.members)]
    if bare:
        where = f"engine {', '.join(bare)} of ModelDeployment {ground.namespace}/{ground.deployment}"
        return _refused(Reason.INVALID_TEMPLATE, f"{where} has a member without template.spec; add its container")

    named = references(replica.spec.engines)
    answers = {read: world.answer(read) for read in {reference.read(ground.namespace) for reference in named}}
    lacking = missing(ground, named, answers)
    mode, engines = replica.spec.mode, xr["spec"]["engines"]
    try:
        workloads = _workloads(ground, mode, engines, world.observed)
    except InvalidObject as error:
        return _refused(Reason.INVALID_TEMPLATE, f"ModelDeployment {ground.namespace}/{ground.deployment}: {error}")
    children = [
        _namespace(ground),
        *copies(ground, named, answers),
        *(template for engine in engines for template in claim_templates(ground, engine)),
        *workloads,
        *surface(ground),
        *picker(ground, _picker_config(mode, engines)),
    ]
    unread = [read for read, answer in answers.items() if not isinstance(answer, Absent) and _is_open(answer)]
    accepted, ready = _state(ground, world, workloads, len(replica.spec.engines), lacking)
    return Composition(
        children=children,
        conditions=(accepted, ready),
        events=_events(ground, xr, workloads, world.observed, lacking),
        ready=_ready(world, ground, accepted, ready),
        # While something that pods read is missing or unread, a copy that was made before has to stay.
        complete=not unread and not lacking,
    )


def deletion_order(xr: Object) -> Sequence[After]:
    """Traffic first, then who picks and who serves, then what those stood on."""
    return (
        After("model-route", "inference-pool"),
        After("model-route", "model-serving-*"),
        After("model-route", "model-gang-*"),
        After("inference-pool", "epp*"),
        After("model-serving-*", "resource-claim-*"),
        After("model-gang-*", "resource-claim-*"),
        After("model-serving-*", "secret-*"),
        After("model-gang-*", "secret-*"),
        After("model-serving-*", "configmap-*"),
        After("model-gang-*", "configmap-*"),
    )


# --- reads ------------------------------------------------------------------------------------------------------


def _ground(replica: ModelReplica) -> Ground:
    cache = replica.spec.model_cache_ref
    return Ground(
        replica=replica.metadata.name,
        namespace=replica.metadata.namespace,
        deployment=replica.metadata.labels.get(DEPLOYMENT) or replica.metadata.name,
        cluster=replica.spec.cluster_name,
        cache=cache.name if cache else None,
        engines=tuple(engine.name for engine in replica.spec.engines),
    )


def _cluster(ground: Ground) -> Read:
    return Read(kind=INFERENCE_CLUSTER, name=ground.cluster, project=("spec.cluster.source",))


def _sight(ground: Ground) -> Read:
    """The mirrored namespace on the cluster: whether we can see the cluster at all."""
    return Read(kind=NAMESPACE, name=ground.remote_namespace, cluster=ground.cluster, project=("metadata.name",))


def _is_open(answer: Answer) -> bool:
    return isinstance(answer, Pending | Unavailable)


# --- children ---------------------------------------------------------------------------------------------------


def _namespace(ground: Ground) -> Child:
    return Child(
        key=NAMESPACE_KEY,
        manifest=manifest(NAMESPACE, ground.remote_namespace, labels={NAMESPACE_LABEL: ground.namespace}),
        target=ground.cluster,
        shared=True,
        retain=True,
    )


def _workloads(
    ground: Ground, mode: ServingMode, engines: Sequence[Object], observed: Mapping[str, Observed]
) -> list[Child]:
    """One workload per engine. Where an engine changed its kind, the old workload goes before the new one comes: both
    want the same devices. Raises InvalidObject where an engine's arguments contradict its mode."""
    workloads = []
    for engine in engines:
        together = gang.is_gang(engine)
        other = standalone if together else gang
        if other.key_of(engine["name"]) in observed:
            continue
        workload = gang.gang(ground, engine) if together else standalone.standalone(ground, engine)
        workloads.append(disaggregated(ground, engine, workload) if mode is ServingMode.PREFILL_DECODE else workload)
    return workloads


def _picker_config(mode: ServingMode, engines: list[Object]) -> str:
    """By the engine that answers: the picker hashes prompts in that engine's own blocks."""
    engine = engine_of(engines, Phase.DECODE) if mode is ServingMode.PREFILL_DECODE else engines[0]
    return picker_config(block_size(serving_container(engine).get("args") or ()), mode)


# --- what is said about it --------------------------------------------------------------------------------------


def _waiting_for_cluster(ground: Ground, answer: Answer) -> Composition:
    cluster = f"InferenceCluster {ground.cluster}"
    if isinstance(answer, Absent):
        said, message = false, f"{cluster} does not exist; register it again, or let the deployment move away"
    else:  # nobody can say that the replica does not serve
        said, message = unknown, not_read(f"{cluster} has", answer)
    return Composition.hold(
        (
            said(ConditionType.MODEL_ACCEPTED, Reason.WAITING_FOR_CLUSTER, message),
            said(ConditionType.MODEL_READY, Reason.WAITING_FOR_MODEL, message),
        ),
        ready=said(READY, Reason.WAITING_FOR_CLUSTER, message),
    )


def _refused(reason: str, message: str) -> Composition:
    return Composition.hold(
        (
            false(ConditionType.MODEL_ACCEPTED, reason, message),
            false(ConditionType.MODEL_READY, Reason.WAITING_FOR_MODEL, message),
        ),
        ready=false(READY, reason, message),
        events=(Event(type="Warning", reason=str(reason), message=message),),
    )


def _state(
    ground: Ground, world: World, workloads: Sequence[Child], engines: int, lacking: Sequence[Reference]
) -> tuple[Condition, Condition]:
    """ModelAccepted and ModelReady."""
    accepted_type, ready_type = ConditionType.MODEL_ACCEPTED, ConditionType.MODEL_READY
    sight = world.answer(_sight(ground))
    if isinstance(sight, Unavailable):
        what = f"cluster {ground.cluster}"
        return lost(accepted_type, sight, what), lost(ready_type, sight, what)
    observed = world.observed
    seen = [w for w in workloads if w.key in observed and carries(observed[w.key].manifest, w.manifest)]
    serving = [w for w in seen if observed[w.key].ready]
    starting = ", ".join(w.manifest["metadata"]["name"] for w in workloads if w not in serving)
    if lacking:
        names = ", ".join(str(reference) for reference in lacking)
        message = f"{names} does not exist in namespace {ground.namespace}; create it there, pods read a copy of it"
        accepted = false(accepted_type, Reason.SECRET_MISSING, message)
        if len(serving) < engines:
            return accepted, false(ready_type, Reason.WAITING_FOR_MODEL, message)
    elif len(seen) < engines:
        message = f"waiting for the workload of {engines - len(seen)} of {engines} engine(s) on {ground.cluster}"
        return false(accepted_type, Reason.DEPLOYING, message), false(ready_type, Reason.WAITING_FOR_MODEL, message)
    else:
        accepted = true(accepted_type, Reason.ACCEPTED)
    if len(serving) < engines:
        where = f"{ground.cluster} namespace {ground.remote_namespace}"
        message = f"starting on {where}: {starting}; kubectl describe its pods there for what they wait for"
        return accepted, false(ready_type, Reason.MODEL_STARTING, message)
    return accepted, true(ready_type, Reason.SERVING)


def _ready(world: World, ground: Ground, accepted: Condition, ready: Condition) -> Condition:
    if ready.status != "True":
        return msgspec.structs.replace(ready, type=READY)
    waiting = [key for key in ("model-route", "inference-pool") if key not in world.observed]
    if waiting:
        return false(READY, Reason.DEPLOYING, f"waiting for {', '.join(waiting)} on {ground.cluster}")
    return true(READY, AVAILABLE, accepted.message)


def _events(
    ground: Ground,
    xr: Object,
    workloads: Sequence[Child],
    observed: Mapping[str, Observed],
    lacking: Sequence[Reference],
) -> list[Event]:
    events = []
    if workloads and not any(workload.key in observed for workload in workloads):
        image = xr["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]
        events.append(Event(type="Normal", reason="Deploying", message=f"{image} goes to cluster {ground.cluster}"))
    if lacking:
        names = ", ".join(str(reference) for reference in lacking)
        message = f"{names} does not exist in namespace {ground.namespace}"
        events.append(Event(type="Warning", reason=str(Reason.SECRET_MISSING), message=message))
    return events
