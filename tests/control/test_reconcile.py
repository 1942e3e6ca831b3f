"""The reconciler makes what composers want, keeps it so, and says truly how it stands."""

from __future__ import annotations

import pytest

from modelplane.api.meta import GVK, Condition, Object, Status
from modelplane.compose.contract import Answer, Child, Composition, ConditionTrue, Event, Found, World
from modelplane.control.caches import Scope
from modelplane.control.passes import FINALIZER
from modelplane.errors import Forbidden
from tests.control.harness import CONFIG_MAP, Toys, config_map, plane, toy, until
from tests.kube.fake_api import FakeApi


async def test_children_appear_with_their_owner_and_ready_follows(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "v"}}))
        await until(lambda: running.says("Ready", "True", "Available"))
        child = api.find("ConfigMap", "a-x", "ns")
        assert child is not None
        assert child["data"] == {"k": "v"}
        [reference] = child["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"], reference["controller"]) == ("Toy", "a", True)
        assert running.says("Synced", "True", "ReconcileSuccess")
        assert running.toy()["status"]["parts"] == 1
        assert "finalizers" not in running.toy()["metadata"], "garbage collection sees everything that there is"


async def test_a_change_of_the_spec_changes_the_child_and_a_dropped_key_is_pruned(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "1"}, "y": {}}))
        await until(lambda: running.says("Ready", "True"))
        await api.put({**running.toy(), "spec": {"parts": {"x": {"k": "2"}}}})
        await until(lambda: running.says("Ready", "True"))
        assert (api.find("ConfigMap", "a-x", "ns") or {})["data"] == {"k": "2"}
        await until(lambda: api.find("ConfigMap", "a-y", "ns") is None)
        await until(lambda: [entry["key"] for entry in running.toy()["status"]["children"]] == ["x"])


async def test_only_a_complete_pass_drops_a_child(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}}))
        await until(lambda: running.says("Ready", "True"))
        complete = False
        toys.override = lambda xr, world: Composition(children=(), complete=complete)
        await api.put({**running.toy(), "spec": {"turn": 1}})
        await until(lambda: running.toy()["status"]["conditions"][0]["observedGeneration"] == 2)
        await running.settled()
        assert api.find("ConfigMap", "a-x", "ns") is not None
        complete = True
        await api.put({**running.toy(), "spec": {"turn": 2}})
        await until(lambda: api.find("ConfigMap", "a-x", "ns") is None)


async def test_a_held_pass_changes_what_is_said_and_nothing_else(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "1"}}))
        await until(lambda: running.says("Ready", "True"))
        waiting = Condition(type="Fed", status=Status.FALSE, reason="Waiting", message="for an input")
        toys.override = lambda xr, world: Composition.hold((waiting,))
        await api.put({**running.toy(), "spec": {"parts": {"x": {"k": "2"}}}})
        await until(lambda: running.says("Fed", "False", "Waiting"))
        assert (api.find("ConfigMap", "a-x", "ns") or {})["data"] == {"k": "1"}
        assert running.toy()["status"]["parts"] == 1, "fields stay as they were"
        assert not running.says("Ready", "True"), "a Ready of an older spec must not pass for one of this spec"


async def test_what_somebody_changes_in_a_child_is_put_right(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "v"}}))
        await until(lambda: running.says("Ready", "True"))
        child = api.find("ConfigMap", "a-x", "ns")
        assert child is not None
        await api.put({**child, "data": {"k": "tampered"}})
        await until(lambda: (api.find("ConfigMap", "a-x", "ns") or {})["data"] == {"k": "v"})
        await api.put({**toy("b", parts={"x": {}})})
        await until(lambda: running.says("Ready", "True", name="b"))


async def test_a_settled_parent_costs_no_request(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}}))
        await until(lambda: running.says("Ready", "True"))
        await running.settled()
        api.requests.clear()
        for _ in range(3):
            running.reconciler.wake(next(iter(running.reconciler._book.parents.values())))
            await running.settled()
        assert [entry for entry in api.requests if entry[0] in ("PATCH", "PUT", "POST", "DELETE")] == []


async def test_a_read_wakes_its_reader_only_through_its_projection(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}}, reads=["input"]))
        await until(lambda: running.says("Ready", "True"))
        await running.settled()
        before = toys.passes
        await api.put(config_map("input", data={"k": "1"}))
        await until(lambda: toys.passes > before)
        await running.settled()
        before = toys.passes
        noted = config_map("input", data={"k": "1"})
        noted["metadata"]["labels"] = {"seen": "yes"}
        await api.put(noted)
        await api.put(config_map("other", data={"k": "1"}))
        await running.settled()
        assert toys.passes == before, "labels are outside the projection, and nobody reads the other"


async def test_ready_waits_for_the_childs_own_condition_about_its_newest_generation(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    def compose(xr: Object, world: World) -> Composition:
        return Composition(
            children=[Child(key="x", manifest=config_map("x", data=xr["spec"]), ready=ConditionTrue("Up"))]
        )

    async def child_says(generation: int) -> None:
        child = api.find("ConfigMap", "x", "ns")
        assert child is not None
        up = {"type": "Up", "status": "True", "observedGeneration": generation}
        await api.put({**child, "status": {"conditions": [up]}})

    toys.override = compose
    async with plane(toys, api, remote) as running:
        await api.put(toy(k="1"))
        await until(lambda: running.says("Ready", "False", "Creating"))
        assert "ConfigMap ns/x" in running.message("Ready")
        await child_says(1)
        await until(lambda: running.says("Ready", "True"))
        await api.put({**running.toy(), "spec": {"k": "2"}})
        await until(lambda: running.says("Ready", "False", "Creating"))
        await running.settled()
        assert running.says("Ready", "False"), "the child has not seen generation 2"
        await child_says(2)
        await until(lambda: running.says("Ready", "True"))


async def test_a_kinds_own_true_is_doubted_while_this_pass_changed_a_child(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    said: list[str] = []

    def compose(xr: Object, world: World) -> Composition:
        child = Child(key="x", manifest=config_map("x", data=xr["spec"]), ready=ConditionTrue("Up"))
        return Composition(children=[child], ready=Condition(type="Ready", status=Status.TRUE, reason="Fine"))

    toys.override = compose
    async with plane(toys, api, remote) as running:
        running.caches.on_change(
            lambda place, old, new: (
                said.extend(
                    c["reason"] for c in (new.get("status") or {}).get("conditions", []) if c["type"] == "Ready"
                )
                if new and place[1].kind == "Toy"
                else None
            )
        )
        await api.put(toy(k="1"))
        await until(lambda: running.says("Ready", "True", "Fine"))
        assert said[0] == "Creating"


async def test_a_parent_without_children_is_not_vacuously_ready(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={}))
        await until(lambda: running.says("Ready", "False", "Creating"))
        assert running.message("Ready") == "nothing has been composed yet"


async def test_a_bad_spec_is_said_and_stops_nobody_else(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy("a", parts={"x": {}}))
        await until(lambda: running.says("Ready", "True"))
        await api.put({**running.toy(), "spec": {"bad": "value", "parts": {}}})
        await until(lambda: running.says("Synced", "False", "ReconcileError"))
        assert running.message("Synced") == "spec.bad is 'value'; take it away"
        assert api.find("ConfigMap", "a-x", "ns") is not None, "nothing is torn down for a typing error"
        await api.put(toy("b", parts={"x": {}}))
        await until(lambda: running.says("Ready", "True", name="b"))


async def test_a_bug_of_a_composer_is_contained(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    async with plane(toys, api, remote) as running:
        toys.override = lambda xr, world: Composition(
            children=[Child(key="k", manifest=config_map(n)) for n in ("x", "y")]
        )
        await api.put(toy())
        await until(lambda: api.find("Toy", "a", "ns") is not None and running.reconciler.count >= 2)
        assert api.find("ConfigMap", "x", "ns") is None
        toys.override = None
        await api.put(toy("b", parts={"x": {}}))
        await until(lambda: running.says("Ready", "True", name="b"))


async def test_an_object_of_somebody_else_is_never_touched(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    foreign = await api.put(config_map("a-x", data={"owner": "a user"}))
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "v"}, "y": {}}))
        await until(lambda: running.says("Synced", "False", "ReconcileError"))
        assert "ConfigMap ns/a-x exists and is not ours" in running.message("Synced")
        assert api.find("ConfigMap", "a-x", "ns") == foreign
        assert api.find("ConfigMap", "a-y", "ns") is not None, "the others go on"
        await api.put({**running.toy(), "spec": {"parts": {"y": {}}}})
        await until(lambda: running.says("Synced", "True"))
        assert api.find("ConfigMap", "a-x", "ns") == foreign, "pruning does not take it either"


async def test_a_child_that_cannot_be_changed_in_place_is_made_again(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    def compose(xr: Object, world: World) -> Composition:
        return Composition(
            children=[Child(key="x", manifest=config_map("x", data=xr["spec"]), immutable=("data.fixed",))]
        )

    toys.override = compose
    async with plane(toys, api, remote) as running:
        await api.put(toy(fixed="1", free="1"))
        await until(lambda: running.says("Ready", "True"))
        first = (api.find("ConfigMap", "x", "ns") or {})["metadata"]["uid"]
        await api.put({**running.toy(), "spec": {"fixed": "1", "free": "2"}})
        await until(lambda: (api.find("ConfigMap", "x", "ns") or {}).get("data") == {"fixed": "1", "free": "2"})
        assert (api.find("ConfigMap", "x", "ns") or {})["metadata"]["uid"] == first
        await api.put({**running.toy(), "spec": {"fixed": "2", "free": "2"}})
        await until(lambda: (api.find("ConfigMap", "x", "ns") or {}).get("data") == {"fixed": "2", "free": "2"})
        assert (api.find("ConfigMap", "x", "ns") or {})["metadata"]["uid"] != first


@pytest.mark.parametrize(
    ("selector", "reason"),
    [("two", "its devices are taken until its pods are gone"), (None, "it is gone when its pods are")],
    ids=["a workload that is made again", "a workload that is no longer wanted"],
)
async def test_a_workload_is_gone_when_its_pods_are(
    api: FakeApi, remote: FakeApi, toys: Toys, selector: str | None, reason: str
) -> None:
    """The old object has to wait for its dependents, so the new one (or the end) waits for the garbage collector."""

    def compose(xr: Object, world: World) -> Composition:
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "engine", "namespace": "ns"},
            "spec": {"selector": xr["spec"]["selector"]},
        }
        wanted = [Child(key="x", manifest=manifest, immutable=("spec.selector",))]
        return Composition(children=wanted if xr["spec"]["selector"] else [])

    toys.override = compose
    async with plane(toys, api, remote) as running:
        await api.put(toy(selector="one"))
        await until(lambda: running.says("Ready", "True"))
        first = api.find("Deployment", "engine", "ns")
        assert first is not None
        await api.put({**running.toy(), "spec": {"selector": selector}})
        await until(lambda: "deletionTimestamp" in (api.find("Deployment", "engine", "ns") or {})["metadata"])
        ending = api.find("Deployment", "engine", "ns")
        assert ending is not None
        assert (ending["metadata"]["uid"], ending["spec"]) == (first["metadata"]["uid"], first["spec"]), reason
        async with api.client() as collector:
            released = {"metadata": {"finalizers": None}}
            await collector.patch(GVK("apps", "v1", "Deployment"), "engine", "ns", released)
        if selector is None:
            await until(lambda: api.find("Deployment", "engine", "ns") is None)
        else:
            await until(lambda: (api.find("Deployment", "engine", "ns") or {}).get("spec") == {"selector": selector})


async def test_a_child_that_changes_its_kind_waits_until_the_old_one_is_gone(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    def compose(xr: Object, world: World) -> Composition:
        manifest = config_map("x")
        manifest["kind"] = xr["spec"]["kind"]
        return Composition(children=[Child(key="x", manifest=manifest)])

    toys.override = compose
    async with plane(toys, api, remote) as running:
        await api.put(toy(kind="ConfigMap"))
        await until(lambda: running.says("Ready", "True"))
        old = api.find("ConfigMap", "x", "ns")
        assert old is not None
        held = {**old, "metadata": {**old["metadata"], "finalizers": ["test/hold"]}}
        await api.put(held)
        await api.put({**running.toy(), "spec": {"kind": "ServiceAccount"}})
        await until(lambda: running.says("Synced", "False"))
        assert "which it replaces" in running.message("Synced")
        assert api.find("ServiceAccount", "x", "ns") is None
        old = api.find("ConfigMap", "x", "ns")
        assert old is not None
        await api.put({**old, "metadata": {**old["metadata"], "finalizers": []}})
        await until(lambda: running.says("Ready", "True"))
        assert api.find("ServiceAccount", "x", "ns") is not None


async def test_a_failing_child_is_tried_again_until_it_works(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    api.refuse_writes["configmaps"] = 503
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}}))
        await until(lambda: running.says("Synced", "False", "ReconcileError"))
        assert running.says("Ready", "False")
        api.refuse_writes.clear()
        await until(lambda: running.says("Ready", "True"))


async def test_an_event_is_recorded_once_per_change(api: FakeApi, remote: FakeApi, toys: Toys) -> None:
    def compose(xr: Object, world: World) -> Composition:
        said = Event(type="Warning", reason="Odd", message=xr["spec"]["said"])
        return Composition(children=[Child(key="x", manifest=config_map("x"))], events=[said])

    def texts() -> list[tuple[str, int]]:
        return sorted((event["message"], event["count"]) for event in api.all("Event"))

    toys.override = compose
    async with plane(toys, api, remote) as running:
        await api.put(toy(said="one"))
        await until(lambda: running.says("Ready", "True"))
        running.reconciler.wake(next(iter(running.reconciler._book.parents.values())))
        await until(lambda: texts() == [("one", 1)])
        await api.put({**running.toy(), "spec": {"said": "two"}})
        await until(lambda: texts() == [("one", 1), ("two", 1)])
        await api.put({**running.toy(), "spec": {"said": "one"}})
        await until(lambda: texts() == [("one", 2), ("two", 1)])
    async with plane(toys, api, remote) as running:
        await until(lambda: toys.passes > 3)
        await running.settled()
        assert texts() == [("one", 2), ("two", 1)], "a restart has nothing new to say"


async def test_a_restart_finds_everything_in_place_and_writes_nothing_new(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {"k": "v"}, "y": {}}, cluster="east"))
        await until(lambda: running.says("Ready", "True"))
        await running.settled()
    versions = api.version, remote.version
    async with plane(toys, api, remote) as running:
        await until(lambda: running.reconciler.count > 0)
        await until(lambda: toys.passes > 2)
        await running.settled()
        assert (api.version, remote.version) == versions


async def test_what_the_control_cluster_refuses_to_show_for_a_moment_has_not_gone(
    api: FakeApi, remote: FakeApi, toys: Toys
) -> None:
    """A kube-apiserver that has just been started refuses everybody until it has read its roles."""
    seen: list[Answer] = []

    def compose(xr: Object, world: World) -> Composition:
        seen.extend(world.answer(read) for read in toys.reads(xr, {}))
        return Composition(children=toys.children(xr))

    toys.override = compose
    async with plane(toys, api, remote) as running:
        await api.put(config_map("input", data={"k": "1"}))
        await api.put(toy(parts={"x": {}}, reads=["input"]))
        await until(lambda: running.says("Ready", "True"))
        maps = running.caches.watch(None, CONFIG_MAP, Scope("ns", "input")).informer
        api.refuse_reads = {"configmaps": 403}
        await api.disconnect()
        await until(lambda: isinstance(maps.error, Forbidden))
        seen.clear()
        await api.put(toy(parts={"x": {"k": "2"}}, reads=["input"]))
        await until(lambda: running.says("Ready", "True"))
        assert seen
        assert all(isinstance(answer, Found) and answer.object["data"] == {"k": "1"} for answer in seen)


@pytest.mark.parametrize("cluster", [None, "east"])
async def test_a_child_that_nobody_may_look_at_after_a_start_is_waited_for(
    api: FakeApi, remote: FakeApi, toys: Toys, cluster: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Else its parent says that it is not there, and whoever depends on it lets go of it."""
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}}, **({"cluster": cluster} if cluster else {})))
        await until(lambda: running.says("Ready", "True"))
    server = remote if cluster else api
    server.refuse_reads = {"configmaps": 403}
    passes, before = toys.passes, running.toy()["status"]
    async with plane(toys, api, remote) as running:
        await until(lambda: "Toy ns/a: configmaps are refused by the test" in caplog.text)
        assert toys.passes == passes
        assert running.toy()["status"] == before
        server.refuse_reads = {}
        await until(lambda: toys.passes > passes)
        assert running.says("Ready", "True")


@pytest.mark.parametrize("edges", [True, False], ids=["ordered", "unordered"])
async def test_a_deletion_order_puts_a_finalizer_on_the_parent(
    api: FakeApi, remote: FakeApi, toys: Toys, edges: bool
) -> None:
    from modelplane.compose.contract import After

    toys.order = (After("x", "y"),) if edges else ()
    async with plane(toys, api, remote) as running:
        await api.put(toy(parts={"x": {}, "y": {}}))
        await until(lambda: running.says("Ready", "True"))
        assert (FINALIZER in running.toy()["metadata"].get("finalizers", [])) is edges


def test_the_toys_are_a_composer(toys: Toys) -> None:
    assert GVK("", "v1", "ConfigMap") == CONFIG_MAP
    assert toys.deletion_order(toy()) == ()
