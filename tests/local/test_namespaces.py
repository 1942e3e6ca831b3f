"""What a namespace that goes says about what is left in it."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.errors import Forbidden
from modelplane.local.controllers.namespaces import judged
from modelplane.local.controllers.pods import refused_at_the_end
from modelplane.local.kinds import CONFIG_MAP, DEPLOYMENT, POD

from .objects import pod


def said(*remaining: object) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["message"]) for c in judged(remaining)}  # type: ignore[arg-type]


def held(*finalizers: str) -> Object:
    return {"metadata": {"name": "x", "finalizers": list(finalizers)}}


def test_nothing_left_is_nothing_to_say() -> None:
    assert {status for status, _ in said().values()} == {"False"}
    assert len(said()) == 5


def test_what_is_left_is_counted_by_kind_and_by_finalizer() -> None:
    found = said(
        (POD, [pod("a"), pod("b")]),
        (DEPLOYMENT, [held("example.com/b", "example.com/a")]),
        (CONFIG_MAP, [held("example.com/a")]),
    )
    assert found["NamespaceContentRemaining"] == (
        "True",
        "Some resources are remaining: configmaps. has 1 resource instances, deployments.apps has 1 resource instances, "
        "pods. has 2 resource instances",
    )
    assert found["NamespaceFinalizersRemaining"] == (
        "True",
        "Some content in the namespace has finalizers remaining: example.com/a in 2 resource instances, "
        "example.com/b in 1 resource instances",
    )
    assert found["NamespaceDeletionContentFailure"][0] == "False"


def test_objects_without_finalizers_hold_nothing_by_them() -> None:
    assert said((POD, [pod("a")]))["NamespaceFinalizersRemaining"][0] == "False"


def test_a_refusal_because_the_namespace_goes_is_told_from_others() -> None:
    causes = (("metadata.namespace", "namespace x is being terminated"),)
    assert refused_at_the_end(Forbidden("no", causes=causes))
    assert not refused_at_the_end(Forbidden("no"))
    assert not refused_at_the_end(Forbidden("no", causes=(("spec", "a quota is being terminated"),)))
