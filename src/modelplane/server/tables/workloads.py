"""Tables of the kinds that make pods."""

from __future__ import annotations

from datetime import datetime

from modelplane.api.meta import Object
from modelplane.server.columns import AGE, NAME, age, created, duration, moment, name_of
from modelplane.server.resource import Column
from modelplane.server.tables.cells import (
    NONE,
    Cell,
    Table,
    column,
    comma,
    labels,
    number,
    selector,
    spec,
    status,
    table,
    timed,
    untimed,
    wide,
)  # fmt: skip


def _containers(obj: Object) -> list[Object]:
    outer = (spec(obj).get("jobTemplate") or {}).get("spec") or spec(obj)
    return ((outer.get("template") or {}).get("spec") or {}).get("containers") or []


def _template_containers(obj: Object) -> list[Object]:
    return ((obj.get("template") or {}).get("spec") or {}).get("containers") or []


def _images() -> tuple[tuple[Column, Cell], ...]:
    return (
        wide("Containers", lambda obj: comma(c.get("name") for c in _containers(obj))),
        wide("Images", lambda obj: comma(c.get("image") for c in _containers(obj))),
    )


def _wide() -> tuple[tuple[Column, Cell], ...]:
    return (*_images(), wide("Selector", lambda obj: selector(spec(obj).get("selector"))))


def _wanted(obj: Object) -> object:
    return spec(obj).get("replicas", 1)


def _ready(obj: Object) -> str:
    return f"{status(obj).get('readyReplicas') or 0}/{_wanted(obj)}"


def _job_status(job: Object) -> str:
    true = {c.get("type") for c in status(job).get("conditions") or () if c.get("status") == "True"}
    for condition, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in true:
            return word
    if (job.get("metadata") or {}).get("deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true:
            return condition
    return "Running"


def _completions(job: Object) -> str:
    done = status(job).get("succeeded") or 0
    if spec(job).get("completions") is not None:
        return f"{done}/{spec(job)['completions']}"
    parallelism = spec(job).get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Object, now: datetime) -> str:
    start = moment(status(job).get("startTime"))
    if start is None:
        return ""
    end = moment(status(job).get("completionTime")) or now
    return duration(max(int((end - start).total_seconds()), 0))


def _last_schedule(job: Object, now: datetime) -> str:
    last = status(job).get("lastScheduleTime")
    return age(last, now) if last else NONE


_REPLICAS = table(
    number("Desired", _wanted),
    number("Current", lambda obj: status(obj).get("replicas")),
    number("Ready", lambda obj: status(obj).get("readyReplicas")),
    wide=_wide(),
)

TABLES: dict[tuple[str, str], Table] = {
    ("apps", "Deployment"): table(
        column("Ready", _ready),
        column("Up-to-date", lambda obj: status(obj).get("updatedReplicas") or 0),
        column("Available", lambda obj: status(obj).get("availableReplicas") or 0),
        wide=_wide(),
    ),
    ("apps", "ReplicaSet"): _REPLICAS,
    ("", "ReplicationController"): {
        **_REPLICAS,
        **dict([wide("Selector", lambda obj: labels(spec(obj).get("selector")))]),
    },
    ("apps", "StatefulSet"): table(column("Ready", _ready), wide=_images()),
    ("apps", "DaemonSet"): table(
        number("Desired", lambda obj: status(obj).get("desiredNumberScheduled")),
        number("Current", lambda obj: status(obj).get("currentNumberScheduled")),
        number("Ready", lambda obj: status(obj).get("numberReady")),
        number("Up-to-date", lambda obj: status(obj).get("updatedNumberScheduled")),
        number("Available", lambda obj: status(obj).get("numberAvailable")),
        column(
            "Node Selector",
            lambda obj: labels(((spec(obj).get("template") or {}).get("spec") or {}).get("nodeSelector")),
        ),
        wide=_wide(),
    ),
    ("apps", "ControllerRevision"): table(
        column("Controller", lambda obj: _controller(obj)),
        column("Revision", lambda obj: obj.get("revision") or 0),
    ),
    ("", "PodTemplate"): {
        NAME: untimed(name_of),
        **dict(
            [
                column("Containers", lambda obj: comma(c.get("name") for c in _template_containers(obj))),
                column("Images", lambda obj: comma(c.get("image") for c in _template_containers(obj))),
                column("Pod Labels", lambda o: labels(((o.get("template") or {}).get("metadata") or {}).get("labels"))),
            ]
        ),
    },
    ("batch", "Job"): table(
        column("Status", _job_status),
        column("Completions", _completions),
        timed("Duration", _job_duration),
        wide=_wide(),
    ),
    ("batch", "CronJob"): table(
        column("Schedule", lambda obj: spec(obj).get("schedule", "")),
        column("Timezone", lambda obj: spec(obj).get("timeZone") or NONE),
        column("Suspend", lambda obj: str(spec(obj).get("suspend") or False), "boolean"),
        number("Active", lambda obj: len(status(obj).get("active") or ())),
        timed("Last Schedule", _last_schedule),
        wide=_wide(),
    ),
    ("autoscaling", "Scale"): {
        Column("Name"): untimed(name_of),
        **dict(
            [
                number("Desired", lambda obj: spec(obj).get("replicas")),
                number("Available", lambda obj: status(obj).get("replicas")),
            ]
        ),
        AGE: created,
    },
    ("autoscaling", "HorizontalPodAutoscaler"): table(
        column("Reference", lambda obj: _reference(spec(obj).get("scaleTargetRef") or {})),
        column("Targets", lambda obj: _targets(obj)),
        column("MinPods", lambda obj: str(spec(obj).get("minReplicas") or "<unset>")),
        column("MaxPods", lambda obj: spec(obj).get("maxReplicas") or 0),
        column("Replicas", lambda obj: status(obj).get("currentReplicas") or 0),
    ),
}


def _controller(obj: Object) -> str:
    for owner in (obj.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            group, _, _ = str(owner.get("apiVersion", "")).rpartition("/")
            kind = str(owner.get("kind", "")).lower()
            return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return NONE


def _reference(target: Object) -> str:
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _targets(obj: Object) -> str:
    """Each metric as ``name: current/target``."""
    current = {_metric_name(m): _metric_value(m, "current") for m in status(obj).get("currentMetrics") or ()}
    told = [
        f"{_metric_name(m)}: {current.get(_metric_name(m), '<unknown>')}/{_metric_value(m, 'target')}"
        for m in spec(obj).get("metrics") or ()
    ]
    return ", ".join(told) if told else NONE


def _metric_source(metric: Object) -> Object:
    kind = str(metric.get("type", ""))
    return metric.get(kind[:1].lower() + kind[1:]) or {}


def _metric_name(metric: Object) -> str:
    source = _metric_source(metric)
    return str(source.get("name") or (source.get("metric") or {}).get("name") or metric.get("type"))


def _metric_value(metric: Object, side: str) -> str:
    value = _metric_source(metric).get(side) or {}
    if value.get("averageUtilization") is not None:
        return f"{value['averageUtilization']}%"
    if value.get("averageValue") is not None:
        return f"{value['averageValue']} (avg)"
    return str(value.get("value", "<unknown>"))
