"""Watches: order, resumption, selectors, bookmarks, WatchList, tables, and the end of the log."""

from __future__ import annotations

import pytest

from tests.server.api import TABLE, Api, config_map


def maps(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


def test_a_watch_starts_with_what_exists_and_goes_on_with_changes(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("a", namespace, x="1"))
    with api.watch(maps(namespace) + "?watch=true") as events:
        assert _seen(next(events)) == ("ADDED", "a")
        api.create(maps(namespace), config_map("b", namespace))
        api.patch(maps(namespace, "a"), {"data": {"x": "2"}})
        api.call("DELETE", maps(namespace, "b"))
        assert [_seen(next(events)) for _ in range(3)] == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_a_watch_resumes_after_the_revision_of_a_list(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("a", namespace))
    revision = api.get(maps(namespace))["metadata"]["resourceVersion"]
    api.create(maps(namespace), config_map("b", namespace))
    with api.watch(maps(namespace) + f"?watch=1&resourceVersion={revision}") as events:
        event = next(events)
    assert _seen(event) == ("ADDED", "b")
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(revision)


def test_a_deleted_object_is_shown_at_the_revision_of_its_deletion(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("a", namespace))
    revision = made["metadata"]["resourceVersion"]
    api.call("DELETE", maps(namespace, "a"))
    with api.watch(maps(namespace) + f"?watch=1&resourceVersion={revision}") as events:
        event = next(events)
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(revision)


def test_a_selector_sees_objects_enter_and_leave(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("a", namespace))
    with api.watch(maps(namespace) + "?watch=1&labelSelector=on%3Dtrue&timeoutSeconds=30") as events:
        api.patch(maps(namespace, "a"), {"metadata": {"labels": {"on": "true"}}})
        assert _seen(next(events)) == ("ADDED", "a")
        api.patch(maps(namespace, "a"), {"data": {"x": "1"}})
        assert _seen(next(events)) == ("MODIFIED", "a")
        api.patch(maps(namespace, "a"), {"metadata": {"labels": {"on": None}}})
        gone = next(events)
    assert gone["type"] == "DELETED"
    assert gone["object"]["metadata"]["labels"] == {"on": "true"}, "the last state that matched"


def test_one_object_is_watched_by_a_field_selector_or_by_the_old_path(api: Api, namespace: str) -> None:
    for name in ("a", "b"):
        api.create(maps(namespace), config_map(name, namespace))
    assert api.get(maps(namespace, "b") + "?watch=true")["kind"] == "ConfigMap", "of its own path a GET is a GET"
    with api.watch(maps(namespace) + "?watch=true&fieldSelector=metadata.name=b") as events:
        assert _seen(next(events)) == ("ADDED", "b")
    old = maps(namespace, "b").replace("/api/v1/", "/api/v1/watch/")
    with api.watch(old) as events:
        assert _seen(next(events)) == ("ADDED", "b")
        api.patch(maps(namespace, "a"), {"data": {"x": "1"}})
        api.call("DELETE", maps(namespace, "b"))
        assert _seen(next(events)) == ("DELETED", "b")


def test_a_watch_list_marks_the_end_of_what_existed(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("a", namespace))
    api.create(maps(namespace), config_map("b", namespace))
    query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with api.watch(maps(namespace) + query + "&fieldSelector=metadata.name%3Db") as events:
        first, second = next(events), next(events)
    assert _seen(first) == ("ADDED", "b")
    assert second["type"] == "BOOKMARK"
    assert second["object"]["kind"] == "ConfigMap"
    assert second["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_that_times_out_ends_with_a_bookmark_if_one_was_asked_for(api: Api, namespace: str) -> None:
    with api.watch(maps(namespace) + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=1") as events:
        seen = list(events)
    assert [event["type"] for event in seen] == ["BOOKMARK"]


def test_a_table_watch_carries_the_columns_once(api: Api, namespace: str) -> None:
    with api.watch(maps(namespace) + "?watch=1", accept=TABLE) as events:
        api.create(maps(namespace), config_map("a", namespace))
        api.create(maps(namespace), config_map("b", namespace))
        first, second = next(events)["object"], next(events)["object"]
    assert first["kind"] == "Table"
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][0] == "b"


REFUSED = [
    ("?watch=1&resourceVersion=soon", 500, "not a revision, in the code of kube-apiserver"),
    ("?watch=1&resourceVersion=999999999", 504, "a revision that is yet to come"),
    ("?watch=1&sendInitialEvents=true", 422, "a WatchList has to say which revision is good enough"),
]


@pytest.mark.parametrize(("query", "code", "reason"), REFUSED)
def test_a_watch_is_refused_before_it_starts(api: Api, namespace: str, query: str, code: int, reason: str) -> None:
    assert api.call("GET", maps(namespace) + query).code == code, reason


def _seen(event: dict[str, object]) -> tuple[object, object]:
    obj = event["object"]
    assert isinstance(obj, dict)
    return event["type"], obj["metadata"]["name"]
