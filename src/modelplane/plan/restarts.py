"""Replicas whose pods start anew where they are, since their deployment gives pods other things than those that run.

Compared is what a replica was stamped with, and what its deployment has after the edits. A snapshot knows names and images of
containers alone: there nothing else can be told, and a note says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from modelplane.api import model_deployment, model_replica
from modelplane.api.engines import BaseMember
from modelplane.api.labels import DEPLOYMENT
from modelplane.api.meta import Key
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.pods import Container, PodSpec, PodTemplate
from modelplane.plan.fleet import Replica
from modelplane.plan.scene import Scene

_GIVEN = ("command", "args", "env")
"""What a container is given besides its image."""


class Restarts(msgspec.Struct, frozen=True):
    """Why pods start anew, by replica, and what could not be compared, in words."""

    reasons: Mapping[Key, str]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, now: Scene, then: Scene) -> Restarts:
        """The replicas of the fleet against the deployments that it will have."""
        parsed = map(model_deployment.parse, then.all(model_deployment.KIND))
        wanted = {deployment.metadata.key: deployment for deployment in parsed}
        reasons = {}
        running = set()
        for replica in map(model_replica.parse, now.all(model_replica.KIND)):
            key = Key(replica.metadata.namespace, replica.metadata.labels.get(DEPLOYMENT, ""))
            running.add(key)
            home = wanted.get(key)
            told = list(dict.fromkeys(_differences(replica, home, now.bare))) if home is not None else []
            if told:
                reasons[replica.metadata.key] = f"its pods restart: {'; '.join(told)}"
        unsure = [str(key) for key in sorted(running & wanted.keys()) if now.bare and _gives_more(wanted[key])]
        return cls(reasons, (_note(unsure),) if unsure else ())

    def why(self, replica: Replica) -> str:
        """What differs for the replica, empty where nothing does."""
        return self.reasons.get(replica.key, "")


def _note(deployments: Sequence[str]) -> str:
    return (
        "a snapshot has images of containers and nothing else of pods, so whether those of "
        f"{', '.join(deployments)} restart for anything else is not told; ask the live fleet"
    )


def _differences(replica: ModelReplica, deployment: ModelDeployment, bare: bool) -> Iterator[str]:
    """What pods will have that they do not have now. Engines and members that are not on both sides are no such thing."""
    template = deployment.spec.template.spec
    if replica.spec.mode is not template.mode:
        yield f"serving mode {replica.spec.mode} -> {template.mode}"
    caches = [ref.name if ref else "none" for ref in (replica.spec.model_cache_ref, template.model_cache_ref)]
    if caches[0] != caches[1]:
        yield f"ModelCache {caches[0]} -> {caches[1]}"
    stamped = {engine.name: engine for engine in replica.spec.engines}
    for engine in template.engines:
        before = stamped.get(engine.name)
        if before is None:
            continue
        who = f"engine {engine.name} has another "
        if before.phase is not engine.phase:
            yield f"{who}phase"
        for old, new in _pairs(before.members, engine.members):
            for text in _of_pods(old.template, new.template, bare):
                yield who + text


def _pairs(before: Sequence[BaseMember], after: Sequence[BaseMember]) -> Iterator[tuple[BaseMember, BaseMember]]:
    roles = {member.role: member for member in before}
    return ((roles[member.role], member) for member in after if member.role in roles)


def _of_pods(old: PodTemplate, new: PodTemplate, bare: bool) -> Iterator[str]:
    was, becomes = _container(old.spec), _container(new.spec)
    if was is None or becomes is None:
        if was is not becomes:
            yield "pod template"
        return
    if was.image != becomes.image:
        yield f"image ({was.image} -> {becomes.image})"
    if bare:
        return
    fields = [field for field in _GIVEN if getattr(was, field) != getattr(becomes, field)]
    fields += ["metadata"] if old.metadata != new.metadata else []
    assert old.spec is not None
    assert new.spec is not None
    fields += ["imagePullSecrets"] if old.spec.image_pull_secrets != new.spec.image_pull_secrets else []
    if fields:
        yield ", ".join(fields)


def _container(spec: PodSpec | None) -> Container | None:
    return spec.engine if spec is not None else None


def _gives_more(deployment: ModelDeployment) -> bool:
    """Whether a deployment says more about its pods than a snapshot keeps."""
    templates = [member.template for engine in deployment.spec.template.spec.engines for member in engine.members]
    return any(
        one.metadata != type(one.metadata)()
        or (
            one.spec is not None
            and bool(one.spec.image_pull_secrets or any(getattr(one.spec.engine, f) for f in _GIVEN))
        )
        for one in templates
    )
