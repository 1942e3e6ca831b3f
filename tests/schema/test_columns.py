"""Tables: JSON paths, ages, and the columns that people read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelplane.api.meta import GVK, Object
from modelplane.server.builtin import resource_types
from modelplane.server.columns import PathPrinter, age, builtin_printer
from modelplane.server.jsonpath import parse

NOW = datetime(2026, 1, 10, tzinfo=UTC)
OBJ = {
    "metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "web", "x": "y"}},
    "spec": {"n": 3, "list": [{"a": 1, "w": 5}, {"a": 2, "w": 1}], "flag": False, "map": {"k": "v"}, "none": None},
    "status": {
        "conditions": [
            {"type": "Synced", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "Waiting"},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "want", "reason"),
    [
        (".spec.n", [3], "a plain path"),
        ("spec.n", [3], "the leading dot may be missing"),
        ("{.spec.n}", [3], "braces are kubectl's"),
        ("$.spec.n", [3], "so is the root"),
        (r".metadata.labels.app\.kubernetes\.io/name", ["web"], "dots in a key are escaped"),
        ("['metadata']['labels']['app.kubernetes.io/name']", ["web"], "or quoted"),
        (".spec.list[1].a", [2], "an index"),
        (".spec.list[-1].a", [2], "counted from the end"),
        (".spec.list[*].a", [1, 2], "all items"),
        (".spec.list[0:1].a", [1], "a slice"),
        ("..a", [1, 2], "any depth"),
        ('.status.conditions[?(@.type=="Ready")].status', ["False"], "a filter"),
        (".status.conditions[?(@.type=='Ready')].reason", ["Waiting"], "in single quotes"),
        ('.status.conditions[?(@.type == "Ready" && @.status == "True")].type', [], "both conditions"),
        (".spec.list[?(@.w>1)].a", [1], "numbers compare"),
        (".spec.list[?(@.missing)].a", [], "existence"),
        (".spec.nothing.here", [], "a path that leads nowhere gives nothing"),
    ],
)
def test_a_json_path_finds_what_it_names(path: str, want: list[object], reason: str) -> None:
    assert parse(path).find(OBJ) == want, reason


@pytest.mark.parametrize("path", [".spec[", ".a[?(@.b==)]", ".a..", ".a[?(b==1)]"])
def test_a_malformed_path_is_refused_when_it_is_compiled(path: str) -> None:
    with pytest.raises(ValueError, match=r"understood|neither"):
        parse(path)


@pytest.mark.parametrize(
    ("ago", "want"),
    [
        ({"seconds": 0}, "0s"),
        ({"seconds": 119}, "119s"),
        ({"seconds": 120}, "2m"),
        ({"seconds": 150}, "2m30s"),
        ({"minutes": 10, "seconds": 30}, "10m"),
        ({"minutes": 179}, "179m"),
        ({"hours": 3}, "3h"),
        ({"hours": 3, "minutes": 5}, "3h5m"),
        ({"hours": 9, "minutes": 5}, "9h"),
        ({"hours": 47}, "47h"),
        ({"days": 2, "hours": 1}, "2d1h"),
        ({"days": 8}, "8d"),
        ({"days": 729}, "729d"),
        ({"days": 731}, "2y1d"),
        ({"days": 365 * 9}, "9y"),
        ({"seconds": -1}, "0s"),
        ({"seconds": -5}, "<invalid>"),
    ],
)
def test_ages_step_as_kubectls_do(ago: dict[str, int], want: str) -> None:
    assert age((NOW - timedelta(**ago)).isoformat(), NOW) == want


def test_custom_columns_follow_their_types() -> None:
    def column(type_: str, path: str, priority: int = 0) -> Object:
        return {"name": path, "type": type_, "jsonPath": path, "priority": priority}

    obj = OBJ | {"metadata": OBJ["metadata"] | {"creationTimestamp": "2026-01-09T00:00:00Z"}}
    columns = [
        column("integer", ".spec.n"),
        column("boolean", ".spec.flag", 1),
        column("string", ".spec.flag"),
        column("string", ".spec.map"),
        column("string", ".spec.list[*].a"),
        column("string", ".spec.gone"),
        column("integer", ".spec.flag"),
        column("date", ".metadata.creationTimestamp"),
        column("date", ".metadata.name"),
    ]
    printer = PathPrinter(columns)
    assert printer.row(obj, NOW) == ["a", 3, False, "false", '{"k":"v"}', "1 2", None, None, "24h", "<invalid>"]
    assert [c.priority for c in printer.columns][:3] == [0, 0, 1]


def test_a_custom_kind_without_columns_shows_name_and_age() -> None:
    assert [column.name for column in PathPrinter().columns] == ["Name", "Age"]


def shown(gvk: GVK, obj: Any) -> dict[str, object]:
    printer = builtin_printer(gvk)
    return dict(zip((column.name for column in printer.columns), printer.row(obj, NOW), strict=True))


@pytest.mark.parametrize("kind", [kind for kind in resource_types() if kind.stored], ids=lambda kind: str(kind.gvk))
def test_every_built_in_kind_prints_an_object_that_has_nothing_but_a_name(kind: Any) -> None:
    row = kind.printer.row({"metadata": {"name": "bare"}}, NOW)
    assert "bare" in row
    assert len(row) == len(kind.printer.columns)


def container(state: Object, ready: bool = False, restarts: int = 0, **more: Any) -> Object:
    return {"name": "c", "state": state, "ready": ready, "restartCount": restarts, **more}


POD = GVK("", "v1", "Pod")
PODS: dict[str, tuple[Object, tuple[str, str]]] = {
    "pending": ({"phase": "Pending"}, ("0/1", "Pending")),
    "running": ({"phase": "Running", "containerStatuses": [container({"running": {}}, True)]}, ("1/1", "Running")),
    "not ready": ({"phase": "Running", "containerStatuses": [container({"running": {}})]}, ("0/1", "Running")),
    "crash loop": (
        {"phase": "Running", "containerStatuses": [container({"waiting": {"reason": "CrashLoopBackOff"}})]},
        ("0/1", "CrashLoopBackOff"),
    ),
    "failed with a code": (
        {"phase": "Failed", "containerStatuses": [container({"terminated": {"exitCode": 3}})]},
        ("0/1", "ExitCode:3"),
    ),
    "completed": (
        {
            "phase": "Succeeded",
            "containerStatuses": [container({"terminated": {"exitCode": 0, "reason": "Completed"}})],
        },
        ("0/1", "Completed"),
    ),
    "evicted": ({"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted")),
    "gated": (
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
        ("0/1", "SchedulingGated"),
    ),
}


@pytest.mark.parametrize(("status", "want"), PODS.values(), ids=PODS)
def test_a_pods_status_is_its_most_telling_word(status: Object, want: tuple[str, str]) -> None:
    row = shown(POD, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": status})
    assert (row["Ready"], row["Status"]) == want


def test_a_deleted_pod_is_terminating_and_restarts_tell_when() -> None:
    status = {
        "phase": "Running",
        "containerStatuses": [
            container({"running": {}}, True, 3, lastState={"terminated": {"finishedAt": "2026-01-09T23:55:00Z"}})
        ],
    }
    pod = {"metadata": {"deletionTimestamp": "2026-01-10T00:00:00Z"}, "spec": {}, "status": status}
    row = shown(POD, pod)
    assert row["Status"] == "Terminating"
    assert row["Restarts"] == "3 (5m ago)"


def test_init_containers_are_counted_until_they_are_done() -> None:
    spec = {"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "c"}]}
    done = {"name": "i", "state": {"terminated": {"exitCode": 0}}}
    status = {"phase": "Pending", "initContainerStatuses": [done, {"name": "j", "state": {"running": {}}}]}
    assert shown(POD, {"spec": spec, "status": status})["Status"] == "Init:1/2"


def test_a_deployment_shows_ready_of_wanted() -> None:
    obj = {"spec": {"replicas": 3}, "status": {"readyReplicas": 1, "updatedReplicas": 2}}
    row = shown(GVK("apps", "v1", "Deployment"), obj)
    assert (row["Ready"], row["Up-to-date"], row["Available"]) == ("1/3", 2, 0)


def test_services_nodes_and_events_read_as_usual() -> None:
    service = {"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30080}]}}
    row = shown(GVK("", "v1", "Service"), service)
    assert (row["Type"], row["External-IP"], row["Port(s)"]) == ("LoadBalancer", "<pending>", "80:30080/TCP")
    node = {
        "metadata": {"labels": {"node-role.kubernetes.io/gpu": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.37.0"}},
    }
    row = shown(GVK("", "v1", "Node"), node)
    assert (row["Status"], row["Roles"], row["Version"]) == ("Ready,SchedulingDisabled", "gpu", "v1.37.0")
    event = {
        "type": "Warning",
        "reason": "FailedScheduling",
        "involvedObject": {"kind": "Pod", "name": "p"},
        "lastTimestamp": "2026-01-09T23:59:00Z",
        "message": "0/2 nodes are available\n",
    }
    row = shown(GVK("", "v1", "Event"), event)
    assert list(row)[:5] == ["Last Seen", "Type", "Reason", "Object", "Subobject"]
    assert (row["Last Seen"], row["Object"], row["Message"]) == ("60s", "pod/p", "0/2 nodes are available")


def test_a_claim_shows_whether_it_is_allocated() -> None:
    gvk = GVK("resource.k8s.io", "v1", "ResourceClaim")
    assert shown(gvk, {"status": {}})["State"] == "pending"
    assert shown(gvk, {"status": {"allocation": {"devices": {}}, "reservedFor": [{}]}})["State"] == "allocated,reserved"
