"""The operator as the chart runs it, with its rights and no others, on a real control plane whose audit log is the judge."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from modelplane.api.meta import Object, condition_of
from tests.kubernetes import namespace
from tests.kubernetes.endpoint import until
from tests.kubernetes.installed import (
    ACCOUNT,
    ROOT,
    SYSTEM,
    Running,
    audited,
)
from tests.kubernetes.site import (
    CLUSTERS,
    JSON,
    OURS,
    TEAM,
    Site,
    answered,
    deploy,
    external,
    install_charts,
    made,
    nowhere,
    ready,
    register,
    running_site,
    said,
    slice_of,
    true,
)
from tests.kubernetes.tally import count

pytestmark = [pytest.mark.namespace, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def site(binaries: Path, helm_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if why := namespace.possible():
        pytest.skip(why)
    with running_site(binaries, helm_binary, tmp_path_factory.mktemp("site")) as found:
        yield found


@dataclass
class Life:
    """What happened from an empty control plane to answered requests and back."""

    site: Site
    owners: set[str]
    """Plurals of the kinds that own something on the control cluster."""
    answer: str


@pytest.fixture(scope="module")
def life(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Everything that an operator ever does, once."""
    register(site)
    install_charts(site, tmp_path_factory.mktemp("charts"))
    ready(site, *(f"{OURS}/inferenceclusters/{name}" for name in CLUSTERS))
    deploy(site)
    for path in ("caches/hugging-face", "metrics/vllm"):
        for document in yaml.safe_load_all((ROOT / f"examples/{path}.yaml").read_text()):
            site.apply(document)
    ready(site, f"{TEAM}/modeldeployments/mock-demo")
    ready(site, f"{TEAM}/modelservices/mock")
    answer = answered(site)
    owners = {
        owner["kind"].lower() + ("es" if owner["kind"].endswith("s") else "s")
        for obj in made(site).values()
        for owner in obj["metadata"]["ownerReferences"]
        if owner.get("blockOwnerDeletion")
    }
    # A deployment that never has a place: it asks for caches, and says the same again.
    for cache in ("one", "other", "one"):
        site.apply(nowhere(cache))
        until(
            lambda cache=cache: (
                f"/{cache} does not exist" in said(site, "modeldeployments/nowhere", "ModelCacheResolved")
            )
        )  # type: ignore[misc]
    events = "/api/v1/namespaces/ml-team/events"
    until(
        lambda: any(
            event["involvedObject"]["name"] == "nowhere" and event["count"] == 2 for event in site.items(events)
        )
    )
    site.apply(nowhere("deepseek-r1"))
    until(lambda: true(site.get(f"{TEAM}/modeldeployments/nowhere"), "ModelCacheResolved"))
    # An endpoint of a person, whose slice has to be made again when it is an address instead of a name.
    for url in ("http://models.example.com/v1", "http://192.0.2.7/v1"):
        site.apply(external("elsewhere", url))
        until(lambda url=url: slice_of(site, "elsewhere") == ("FQDN" if "example.com" in url else "IPv4"))  # type: ignore[misc]
    deploy(site, replicas=1)
    until(lambda: len(site.items(f"{TEAM}/modelreplicas")) == 1)
    for path in (
        f"{TEAM}/modelservices/mock",
        f"{TEAM}/modelendpoints/elsewhere",
        f"{TEAM}/modeldeployments/mock-demo",
        f"{TEAM}/modeldeployments/nowhere",
    ):
        site.delete(path)
    until(lambda: not site.items(f"{TEAM}/modelreplicas") and not site.get(f"{TEAM}/modeldeployments/mock-demo"))
    for name in CLUSTERS:
        site.delete(f"{OURS}/inferenceclusters/{name}")
    site.delete(f"{OURS}/inferencegateways/default")
    until(lambda: not site.items(f"{OURS}/inferenceclusters") and not site.items(f"{OURS}/inferencegateways"))
    until(lambda: not made(site))
    return Life(site, owners, answer)


def test_everything_happens_and_nothing_is_forbidden(life: Life) -> None:
    assert json.loads(life.answer)["data"][0]["id"]
    refused = [
        (event["verb"], event["requestURI"], event["responseStatus"])
        for event in audited(life.site.audit)
        if event["annotations"]["authorization.k8s.io/decision"] == "forbid" or event["responseStatus"]["code"] == 403
    ]
    assert refused == []
    count("requests of the operator, none forbidden", sum(1 for _ in audited(life.site.audit)))


def test_the_api_server_asks_the_operator_what_a_schema_cannot_refuse(life: Life) -> None:
    """By the chart's own registration, Service and certificate."""
    site = life.site
    broken = nowhere("deepseek-r1")
    [member] = broken["spec"]["template"]["spec"]["engines"][0]["members"]
    member["nodeSelector"]["devices"][0]["selectors"] = [{"cel": "device.capacity["}]
    answer = site.real.send("POST", f"{TEAM}/modeldeployments?dryRun=All", json.dumps(broken).encode(), JSON)
    assert answer.status == 422, answer.body
    assert 'admission webhook "validate.modelplane.ai" denied the request' in answer.body["message"]
    assert "devices[0].selectors[0].cel" in answer.body["message"]


@dataclass(frozen=True, order=True)
class Right:
    """One thing that may be done: the smallest part that could be taken out of a role."""

    group: str
    resource: str
    verb: str
    name: str = ""
    namespace: str = ""

    @property
    def rule(self) -> Object:
        rule: Object = {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]}
        return {**rule, "resourceNames": [self.name]} if self.name else rule

    def attributes(self) -> Object:
        """For an access review."""
        resource, _, subresource = self.resource.partition("/")
        asked = {"group": self.group, "resource": resource, "verb": self.verb, "subresource": subresource}
        return {**asked, "name": self.name, "namespace": self.namespace or "ml-team"}


RBAC = "/apis/rbac.authorization.k8s.io/v1"


def granted(site: Site) -> set[Right]:
    """Every right of the roles that the chart has installed."""
    places = "clusterroles/modelplane-operator", f"namespaces/{SYSTEM}/roles/modelplane-operator"
    return {
        Right(group, resource, verb, name, role["metadata"].get("namespace", ""))
        for role in (site.get(f"{RBAC}/{place}") for place in places)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ("",))
    }


def used(life: Life) -> set[Right]:
    """What the audit log shows, and what each of that needs beside it."""
    found = set()
    for event in audited(life.site.audit):
        asked = event.get("objectRef")
        if asked is None or event["user"]["username"] != ACCOUNT:
            continue
        group, verb = asked.get("apiGroup", ""), event["verb"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        named = (group, resource) in (("", "namespaces"), ("coordination.k8s.io", "leases")) and verb != "create"
        name = asked.get("name", "") if named else ""
        where = SYSTEM if resource == "leases" else ""
        found.add(Right(group, resource, verb, name, where))
        if verb == "patch" and event["responseStatus"]["code"] == 201:
            found.add(Right(group, resource, "create", "", where))
        if verb == "watch":
            # Of a server that streams no lists (tests/kube: a refused streamed list is asked for as a list).
            found.add(Right(group, resource, "list", name, where))
    return found | {Right("modelplane.ai", f"{plural}/finalizers", "update") for plural in life.owners}


def test_the_rights_are_those_that_were_used_and_no_others(life: Life) -> None:
    rights = granted(life.site)
    assert sorted(used(life) - rights) == [], "used without a rule of its own"
    assert sorted(rights - used(life)) == [], "never used: exercise it in `life`, or take it out"


def test_each_right_is_missed_where_it_is_taken_out(life: Life) -> None:
    """Of each right there is a user who has all but that one, and is refused exactly what the operator did with it."""
    site, rights = life.site, sorted(granted(life.site))

    def post(path: str, body: Object) -> Object:
        answer = site.real.send("POST", path, json.dumps(body).encode(), JSON)
        assert answer.status == 201, answer.body
        return dict(answer.body)

    def allowed(user: str, right: Right) -> bool:
        spec = {"user": user, "resourceAttributes": right.attributes()}
        asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return bool(post("/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)["status"]["allowed"])

    for number in range(len(rights) + 1):
        name = f"without-{number}"
        rules = [right.rule for at, right in enumerate(rights) if at != number]
        post(f"{RBAC}/clusterroles", {"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subjects = [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}]
        post(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": subjects})
    whole = f"without-{len(rights)}"
    until(lambda: allowed(whole, rights[0]))
    assert [right for right in rights if not allowed(whole, right)] == []
    missed = []
    for number, right in enumerate(rights):
        other = rights[number - 1]
        until(lambda number=number, other=other: allowed(f"without-{number}", other))  # type: ignore[misc]
        if allowed(f"without-{number}", right):
            missed.append(right)
    assert missed == [], "these can be had by another rule as well"
    count("rights, each taken out once", len(rights))


@pytest.mark.parametrize(
    ("right", "words"),
    [
        pytest.param(
            Right("discovery.k8s.io", "endpointslices", "create"),
            'cannot create resource "endpointslices"',
            id="create",
        ),
        pytest.param(
            Right("modelplane.ai", "modelendpoints/finalizers", "update"),
            "cannot set blockOwnerDeletion",
            id="finalizers",
        ),
    ],
)
def test_the_object_says_which_right_is_missing_and_goes_on_when_it_is_there(
    life: Life, right: Right, words: str
) -> None:
    site = life.site
    path = f"{RBAC}/clusterroles/modelplane-operator"
    role = site.get(path)
    less = {**role, "rules": [one.rule for one in sorted(granted(site)) if one != right and not one.namespace]}
    endpoint = f"{TEAM}/modelendpoints/short"
    try:
        del less["metadata"]["resourceVersion"]
        site.put(path, less)
        site.apply(external("short"))
        seen = until(lambda: condition_of(site.get(endpoint) or {}, "Synced") or None)
        seen = until(lambda: c if (c := condition_of(site.get(endpoint), "Synced")) and c.status == "False" else None)
        assert words in seen.message
        assert seen.reason == "ReconcileError"
    finally:
        site.put(path, {**less, "rules": role["rules"]})
    ready(site, endpoint)
    site.delete(endpoint)


@dataclass
class Fleet:
    """The example's fleet again, with every object that the operator made for it."""

    site: Site
    objects: set[str]


@pytest.fixture(scope="module")
def fleet(life: Life) -> Fleet:
    site = life.site
    register(site)
    deploy(site)
    ready(site, f"{TEAM}/modeldeployments/mock-demo")
    ready(site, f"{TEAM}/modelservices/mock")
    ready(site, f"{OURS}/inferencegateways/default")
    return Fleet(site, set(made(site)))


def lease(site: Site) -> Object:
    return dict(site.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/modelplane-operator")["spec"])


def seconds(micro_time: str) -> float:
    return datetime.fromisoformat(micro_time.replace("Z", "+00:00")).timestamp()


def another(site: Site, than: Running) -> Running:
    """The operator that leads now, which is another one."""
    return until(lambda: one if (one := site.leader()) is not None and one is not than else None, within=40)  # type: ignore[no-any-return]


def ordered(fleet: Fleet, *names: str) -> None:
    """Endpoints that a person asks for while hands change; each is carried out, once, and nothing else changes."""
    site = fleet.site
    for name in names:
        ready(site, f"{TEAM}/modelendpoints/{name}")
    now = made(site)
    of_names = {
        place
        for place, obj in now.items()
        if any(owner["name"] in names for owner in obj["metadata"]["ownerReferences"])
    }
    assert len(of_names) == 2 * len(names), "a service and a slice each"
    assert (set(now) - of_names) ^ fleet.objects == set(), "nothing twice, nothing lost, nothing made again"
    for name in names:
        site.delete(f"{TEAM}/modelendpoints/{name}")
    unchanged(fleet)


def unchanged(fleet: Fleet, within: float = 60.0) -> None:
    """Wait until there is what there was at first, by UID."""
    deadline = time.monotonic() + within
    while difference := set(made(fleet.site)) ^ fleet.objects:
        assert time.monotonic() < deadline, difference
        time.sleep(0.1)


def test_a_killed_leader_is_followed_within_fifteen_seconds(fleet: Fleet) -> None:
    site = fleet.site
    first = until(site.leader)
    assert first.get("/readyz")[0] == 200
    first.send(signal.SIGKILL)
    killed = time.time()
    site.apply(external("while-nobody-leads"))
    second = another(site, first)
    taken = seconds(lease(site)["acquireTime"])
    assert 0 < taken - killed <= 15.0
    first.process.wait()
    site.kubelet.run(site.pod(first))
    ordered(fleet, "while-nobody-leads")
    assert second.said("leading as")


def test_a_leader_that_slept_through_its_lease_writes_nothing_when_it_wakes(fleet: Fleet) -> None:
    site = fleet.site
    first = until(site.leader)
    names = [f"busy-{number}" for number in range(40)]
    for name in names:
        site.apply(external(name))
    first.send(signal.SIGSTOP)
    second = another(site, first)
    taken = seconds(lease(site)["acquireTime"])
    for name in names:
        site.apply(external(name, "http://192.0.2.8/v1"))
    first.send(signal.SIGCONT)
    ended = first.process.wait(20)
    site.kubelet.run(site.pod(first))
    assert ended == 1
    assert first.said("this operator ends")
    assert "Traceback" not in first.log.read_text()
    late = [
        (event["verb"], event["requestURI"])
        for event in audited(site.audit)
        if first.pod in event["user"].get("extra", {}).get("authentication.kubernetes.io/pod-name", ())
        and event["verb"] not in ("get", "list", "watch")
        and event["objectRef"]["resource"] != "leases"
        and seconds(event["requestReceivedTimestamp"]) > taken
    ]
    assert late == []
    ordered(fleet, *names)
    assert second.process.poll() is None


def test_a_stopped_leader_ends_within_ten_seconds_and_is_followed_at_once(fleet: Fleet) -> None:
    site = fleet.site
    first = until(site.leader)
    until(lambda: all(one.process.poll() is not None or one.get("/readyz")[0] == 200 for one in site.kubelet.running))
    site.apply(external("while-it-ends"))
    first.send(signal.SIGTERM)
    began = time.time()
    assert first.process.wait(10) == 0
    another(site, first)
    assert seconds(lease(site)["acquireTime"]) - began < 10.0 + 2.0
    ordered(fleet, "while-it-ends")
