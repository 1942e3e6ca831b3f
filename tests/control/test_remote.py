"""Children on other clusters: written down first, owned by labels, kept through every loss of sight."""

from __future__ import annotations

import msgspec
import pytest

from modelplane.api.meta import Object
from modelplane.compose.contract import Child, Composition, Read, Unavailable, World
from modelplane.control.charts import RELEASE, decode
from modelplane.control.ownership import CHILD, CONTROL_PLANE, OWNER
from modelplane.control.passes import FINALIZER
from tests.control.harness import (
    CHART,
    UID,
    Toys,
    config_map,
    kubeconfig_secret,
    plane,
    toy,
    until,
)
from tests.kube.fake_api import FakeApi


def pointing_at(server: str, more: str = "") -> str:
    return (
        f'{{"current-context": "c", "clusters": [{{"name": "c", "cluster": {{"server": "{server}"{more}}}}}],'
        ' "contexts": [{"name": "c", "context": {"cluster": "c"}}]}'
    )


async def test_finalizer_and_inventory_are_there_before_the_remote_object(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    remote.refuse_writes["configmaps"] = 503
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "v"}}, cluster="east"))
        await until(lambda: ("PATCH", "/api/v1/namespaces/ns/configmaps/a-x") in remote.requests)
        written = running.toy()
        assert FINALIZER in written["metadata"]["finalizers"]
        assert [(entry["cluster"], entry["kind"], entry["name"]) for entry in written["status"]["children"]] == [
            ("east", "ConfigMap", "a-x")
        ]
        remote.refuse_writes.clear()
        await until(lambda: running.says("Ready", "True"))
        child = remote.find("ConfigMap", "a-x", "ns")
        assert child is not None
        assert child["metadata"]["labels"] == {OWNER: written["metadata"]["uid"], CHILD: "x", CONTROL_PLANE: UID}
        assert "ownerReferences" not in child["metadata"]
        assert running.toy()["status"]["children"][0]["uid"] == child["metadata"]["uid"]
        assert api.find("ConfigMap", "a-x", "ns") is None


async def test_a_cluster_that_never_answered_holds_no_deletion(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    await remote.stop()
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}}, cluster="east"))
        await until(lambda: running.says("Synced", "False", "Unreachable"))
        assert "children" not in running.toy()["status"], "nothing was about to be written"
        await remote.start()
        await until(lambda: running.says("Ready", "True"))
        assert len(remote.all("ConfigMap")) == 1
        await remote.stop()
        await until(lambda: running.caches.lost("east") is not None)
        toys.order = ()
        await api.put(toy("b", parts={"x": {}}, cluster="east"))
        await until(lambda: running.says("Synced", "False", "Unreachable", name="b"))
        async with api.client() as client:
            await client.delete(toys.KIND, "b", "ns")
        await until(lambda: api.find("Toy", "b", "ns") is None)


async def test_losing_a_cluster_changes_what_is_said_and_no_object(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "1"}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        children = running.toy()["status"]["children"]
        await remote.stop()
        await until(lambda: running.says("Ready", "Unknown", "Unreachable"))
        assert running.says("Synced", "True"), "nothing waits to be written"
        assert running.toy()["status"]["children"] == children
        await api.put({**running.toy(), "spec": {"parts": {"x": {"k": "2"}}, "cluster": "east"}})
        await until(lambda: running.says("Synced", "False", "Unreachable"))
        uid = (remote.find("ConfigMap", "a-x", "ns") or {})["metadata"]["uid"]
        await remote.start()
        await until(lambda: running.says("Ready", "True"))
        assert [(obj["metadata"]["uid"], obj["data"]) for obj in remote.all("ConfigMap")] == [(uid, {"k": "2"})]


async def test_a_cluster_that_was_down_at_the_start_is_picked_up_when_it_comes(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
    await remote.stop()
    async with plane(toys, api, remote) as running:
        await until(lambda: running.says("Ready", "Unknown", "Unreachable"))
        await remote.start()
        await until(lambda: running.says("Ready", "True"))
        assert len(remote.all("ConfigMap")) == 1


@pytest.mark.parametrize(
    ("text", "reason", "word"),
    [
        (None, "CredentialMissing", "east-kubeconfig does not exist"),
        ("no kubeconfig", "CredentialRefused", "clusters"),
        (
            pointing_at("https://x", ', "insecure-skip-tls-verify": true'),
            "CredentialRefused",
            "cluster.insecure-skip-tls-verify",
        ),
        (pointing_at("http://127.0.0.1:1"), "Unreachable", "127.0.0.1:1"),
    ],
    ids=["missing", "unreadable", "unsafe", "points at nothing"],
)
async def test_a_reader_learns_why_a_cluster_cannot_be_used(
    api: FakeApi, remote: FakeApi, toys: Toys, text: str | None, reason: str, word: str
) -> None:
    async with plane(toys, api, remote) as running:
        if text is None:
            del api.objects[("/v1/secrets", "modelplane-system", "east-kubeconfig")]
            await api.expire()
            await api.disconnect()
        else:
            await api.put(kubeconfig_secret("east", text))
        await until(lambda: (lost := running.caches.lost("east")) is not None and lost.reason == reason)
        lost = running.caches.lost("east")
        assert lost is not None
        assert word in lost.message
        assert lost.since.endswith("Z")


async def test_a_revoked_token_is_unauthorized_and_a_rotated_one_is_taken_over(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        remote.token = "another"
        await until(lambda: (lost := running.caches.lost("east")) is not None and lost.reason == "Unauthorized")
        await until(lambda: running.says("Ready", "Unknown"))
        await api.put(kubeconfig_secret("east", remote.kubeconfig_text()))
        await until(lambda: running.says("Ready", "True"))


async def test_a_remote_read_is_answered_from_its_cluster_and_wakes(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    seen: list[str] = []
    node = Read(kind=type(toys.KIND)("", "v1", "Node"), cluster="east", project=("metadata.labels",))

    class Looking(Toys):
        def reads(self, xr: Object, known: object) -> frozenset[Read]:
            return frozenset({node})

        def compose(self, xr: Object, world: World) -> Composition:
            answer = world.answer(node)
            seen.append(answer.reason if isinstance(answer, Unavailable) else str(len(getattr(answer, "objects", ()))))
            return Composition(children=[Child(key="x", manifest=config_map("x"))])

    async with plane(Looking(), api, remote):
        await api.put(toy())
        await until(lambda: seen[-1:] == ["0"])
        await remote.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        await until(lambda: seen[-1:] == ["1"])
        await remote.stop()
        await until(lambda: seen[-1:] == ["Unreachable"])
        await remote.start()
        await until(lambda: seen[-1:] == ["1"])


async def test_deleting_takes_remote_children_in_the_order_of_the_edges(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    from modelplane.compose.contract import After

    toys.order = (After("route", "work-*"), After("work-*", "claim"))
    async with plane(toys, api, remote) as running:
        parts: dict[str, dict[str, str]] = {"claim": {}, "work-a": {}, "work-b": {}, "route": {}}
        await api.put(toy(parts=parts, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        for name in ("route", "work-b"):
            child = remote.find("ConfigMap", f"a-{name}", "ns")
            assert child is not None
            await remote.put({**child, "metadata": {**child["metadata"], "finalizers": ["test/hold"]}})
        await _delete(running.toy(), api)
        await until(lambda: "ConfigMap ns/a-route on east: is being deleted" in running.message("Ready"))
        assert running.says("Ready", "False", "Deleting")
        assert len(remote.all("ConfigMap")) == 4, "nothing goes before the route"
        await _release("a-route", remote)
        await until(lambda: remote.find("ConfigMap", "a-work-a", "ns") is None)
        await running.settled()
        assert remote.find("ConfigMap", "a-claim", "ns") is not None
        await _release("a-work-b", remote)
        await until(lambda: api.find("Toy", "a", "ns") is None)
        assert remote.all("ConfigMap") == []


async def test_an_unreachable_cluster_is_let_go_after_a_bound_and_what_is_left_is_listed(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    from modelplane.control.deletion import Bounds

    async with plane(toys, api, remote, bounds=Bounds(unreachable=1e9)) as running:
        await api.put(toy(parts={"x": {}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        await remote.stop()
        await until(lambda: running.caches.lost("east") is not None)
        await _delete(running.toy(), api)
        await until(lambda: running.says("Ready", "False", "Deleting"))
        assert "ConfigMap ns/a-x on east" in running.message("Ready")
    async with plane(toys, api, remote, bounds=Bounds(unreachable=0)) as running:
        await until(lambda: api.find("Toy", "a", "ns") is None)
        await until(lambda: any(event["reason"] == "LeftBehind" for event in api.all("Event")))
        [event] = [event for event in api.all("Event") if event["reason"] == "LeftBehind"]
        assert "ConfigMap ns/a-x on east" in event["message"]


async def test_the_bound_begins_when_the_cluster_is_lost_not_when_the_deletion_was_asked_for(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    from modelplane.control.deletion import Bounds

    async with plane(toys, api, remote, bounds=Bounds(unreachable=3600)) as running:
        await api.put(toy(parts={"x": {}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        old = running.toy()
        old["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
        await remote.stop()
        await until(lambda: running.caches.lost("east") is not None)
        await api.put(old)
        await until(lambda: running.says("Ready", "False", "Deleting"))
        assert api.find("Toy", "a", "ns") is not None


async def test_what_is_being_pruned_is_named_and_is_no_failure(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}, "y": {}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        child = remote.find("ConfigMap", "a-y", "ns")
        assert child is not None
        await remote.put({**child, "metadata": {**child["metadata"], "finalizers": ["test/hold"]}})
        await api.put({**running.toy(), "spec": {"parts": {"x": {}}, "cluster": "east"}})
        await until(lambda: "removing ConfigMap ns/a-y on east" in running.message("Synced"))
        assert running.says("Synced", "True")
        await _release("a-y", remote)
        await until(lambda: running.message("Synced") == "")


async def test_an_annotation_forces_the_letting_go(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    from modelplane.control.deletion import FORCE, Bounds

    async with plane(toys, api, remote, bounds=Bounds(unreachable=1e9)) as running:
        await api.put(toy(parts={"x": {}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        await remote.stop()
        await _delete(running.toy(), api)
        await until(lambda: running.says("Ready", "False", "Deleting"))
        found = running.toy()
        await api.put({**found, "metadata": {**found["metadata"], "annotations": {FORCE: "true"}}})
        await until(lambda: api.find("Toy", "a", "ns") is None)


async def test_what_is_orphaned_stays(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    """kubectl delete --cascade=orphan means the dependents."""
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "v"}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        found = running.toy()
        finalizers = [*found["metadata"]["finalizers"], "orphan"]
        deleting = {"finalizers": finalizers, "deletionTimestamp": "2026-01-01T00:00:00Z"}
        await api.put({**found, "metadata": {**found["metadata"], **deleting}})
        await until(lambda: running.toy()["metadata"]["finalizers"] == ["orphan"])
        assert remote.find("ConfigMap", "a-x", "ns") is not None


async def test_a_deletion_finishes_although_creates_are_forbidden(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        api.refuse_writes["events"] = 403
        api.refuse_writes["configmaps"] = 403
        await _delete(running.toy(), api)
        await until(lambda: api.find("Toy", "a", "ns") is None)
        assert remote.all("ConfigMap") == []


async def test_a_parent_that_is_used_is_held_with_the_names_of_its_users(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    def users(xr: Object) -> list[Read]:
        return [Read(kind=type(toys.KIND)("", "v1", "Service"), labels=(("uses", xr["metadata"]["name"]),))]

    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "ns", "labels": {"uses": "a"}},
    }
    await api.put(service)
    async with plane(toys, api, remote, holders={toys.KIND: users}) as running:
        await api.put(toy(parts={"x": {}}))
        await until(lambda: running.says("Ready", "True"))
        await _delete(running.toy(), api)
        await until(lambda: running.says("Ready", "False", "Deleting"))
        assert "Service ns/s" in running.message("Ready")
        assert api.find("ConfigMap", "a-x", "ns") is not None
        del api.objects[("/v1/services", "ns", "s")]
        await api.expire()
        await api.disconnect()
        await until(lambda: api.find("Toy", "a", "ns") is None)


async def test_a_shared_object_goes_with_the_last_that_uses_it(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    def compose(xr: Object, world: World) -> Composition:
        mirrored = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mirror"}}
        mine = config_map(xr["metadata"]["name"], "mirror")
        return Composition(
            children=[
                Child(key="namespace", manifest=mirrored, target="east", shared=True),
                Child(key="x", manifest=mine, target="east"),
            ]
        )

    toys.override = compose
    async with plane(toys, api, remote) as running:
        for name in ("a", "b"):
            await api.put(toy(name))
            await until(lambda name=name: running.says("Ready", "True", name=name))
        await _delete(running.toy("a"), api)
        await until(lambda: api.find("Toy", "a", "ns") is None)
        assert remote.find("Namespace", "mirror") is not None
        await _delete(running.toy("b"), api)
        await until(lambda: api.find("Toy", "b", "ns") is None)
        assert remote.find("Namespace", "mirror") is None


async def test_a_retained_object_stays_when_its_parent_goes(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    toys.override = lambda xr, world: Composition(
        children=[Child(key="x", manifest=config_map("x"), target="east", retain=True)]
    )
    async with plane(toys, api, remote) as running:
        await api.put(toy())
        await until(lambda: running.says("Ready", "True"))
        assert running.toy()["status"]["children"][0]["retain"] is True
        await _delete(running.toy(), api)
        await until(lambda: api.find("Toy", "a", "ns") is None)
        assert remote.find("ConfigMap", "x", "ns") is not None
        await api.put(toy("b"))
        await until(lambda: running.says("Ready", "True", name="b"))


async def test_a_cluster_of_another_control_plane_is_refused_by_name(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    taken = config_map("a-x", data={"k": "theirs"})
    taken["metadata"]["labels"] = {OWNER: "some-uid", CONTROL_PLANE: "other-plane"}
    await remote.put(taken)
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "ours"}}, cluster="east"))
        await until(lambda: running.says("Synced", "False", "ReconcileError"))
        assert "another control plane (other-plane)" in running.message("Synced")
        assert (remote.find("ConfigMap", "a-x", "ns") or {})["data"] == {"k": "theirs"}


async def test_what_a_parent_that_is_gone_left_behind_is_taken_over(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    left = config_map("a-x", data={"k": "old"})
    left["metadata"]["labels"] = {OWNER: "uid-of-a-parent-that-is-gone", CONTROL_PLANE: UID}
    await remote.put(left)
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "new"}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        assert [obj["data"] for obj in remote.all("ConfigMap")] == [{"k": "new"}]


async def test_a_chart_becomes_what_helm_would_list_and_says_that_it_is_simulated(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    def compose(xr: Object, world: World) -> Composition:
        release = msgspec.structs.replace(CHART, values={"replicas": xr["spec"]["replicas"]})
        return Composition(children=[release])

    def releases() -> list[Object]:
        return sorted(remote.all("Secret"), key=lambda secret: str(secret["metadata"]["name"]))

    toys.override = compose
    async with plane(toys, api, remote) as running:
        await api.put(toy(replicas=1))
        await until(lambda: running.says("Ready", "True"))
        [secret] = releases()
        assert secret["metadata"]["name"] == "sh.helm.release.v1.mp-operator.v1"
        assert secret["type"] == "helm.sh/release.v1"
        labels = secret["metadata"]["labels"]
        assert {labels[name] for name in ("owner", "name", "status", "version")} == {
            "helm",
            "mp-operator",
            "deployed",
            "1",
        }
        document = decode(secret["data"]["release"])
        assert document["chart"]["metadata"]["version"] == "1.2.3"
        assert (document["config"], document["info"]["status"]) == ({"replicas": 1}, "deployed")
        assert remote.find("Namespace", "operator-system") is not None
        await until(lambda: any("operator v1.2.3" in event["message"] for event in api.all("Event")))
        assert running.toy()["status"]["children"][0]["kind"] == RELEASE.kind
        await api.put({**running.toy(), "spec": {"replicas": 2}})
        await until(lambda: [s["metadata"]["labels"]["status"] for s in releases()] == ["superseded", "deployed"])
        await until(lambda: running.says("Ready", "True"))
        await _delete(running.toy(), api)
        await until(lambda: api.find("Toy", "a", "ns") is None)
        assert releases() == []


async def _delete(obj: Object, api: FakeApi) -> None:
    async with api.client() as client:
        await client.delete(type(Toys.KIND)("toys.example.com", "v1", "Toy"), obj["metadata"]["name"], "ns")


async def _release(name: str, server: FakeApi) -> None:
    found = server.find("ConfigMap", name, "ns")
    assert found is not None
    await server.put({**found, "metadata": {**found["metadata"], "finalizers": []}})
