"""The curated slice of a pod template that an engine member has: one container called ``engine``, and nothing that placement or
the serving layer decides (no ports, resources, probes or volumes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from modelplane.api.labels import ANNOTATION_RULES, LABEL_RULES, LabelValue
from modelplane.api.shape import Rule, Shape, entries, listed, ruled, text

ENGINE_CONTAINER: Final = "engine"


class KeyRef(Shape, frozen=True, kw_only=True):
    """A key of a Secret or ConfigMap in the deployment's namespace."""

    name: str
    """Name of the object."""
    key: str
    """Key in the object."""
    optional: bool | None = None
    """Whether the pod may start without it."""


class FieldRef(Shape, frozen=True, kw_only=True):
    """A field of the pod."""

    field_path: str
    """Path of the field, such as status.podIP."""
    api_version: str = ""
    """API version that the path is written for."""


class EnvSource(Shape, frozen=True, kw_only=True):
    """Where a variable's value comes from."""

    secret_key_ref: KeyRef | None = None
    """A key of a Secret."""
    config_map_key_ref: KeyRef | None = None
    """A key of a ConfigMap."""
    field_ref: FieldRef | None = None
    """A field of the pod."""


class EnvVar(Shape, frozen=True, kw_only=True):
    """An environment variable."""

    name: str
    """Name of the variable."""
    value: str | None = None
    """Literal value; $(OTHER) expands variables that stand before it, those that the control plane adds included."""
    value_from: EnvSource | None = None
    """Value by reference."""


class Container(Shape, frozen=True, kw_only=True):
    """The container that runs the inference engine; it answers on port 8000 with GET /health."""

    name: Annotated[str, text(1)]
    """Always engine."""
    image: Annotated[str, text(1)]
    """Image reference."""
    command: tuple[str, ...] = ()
    """Entry point, passed through untouched."""
    args: tuple[str, ...] = ()
    """Arguments, passed through. With a cache, without command and without --model, --model=/mnt/models is appended."""
    env: tuple[EnvVar, ...] = ()
    """Environment; variables of the control plane stand before these."""


class PullSecret(Shape, frozen=True, kw_only=True):
    """Credentials of a registry."""

    name: str
    """Name of the Secret in the deployment's namespace."""


class PodSpec(Shape, frozen=True, kw_only=True):
    """What is chosen about the pod."""

    containers: Annotated[
        tuple[Container, ...],
        listed(1, 1),
        ruled(
            Rule(
                rule="self.size() == 1 && self[0].name == 'engine'",
                message="there must be exactly one container and its name must be engine",
            )
        ),
    ]
    """Exactly one container, named engine."""
    image_pull_secrets: tuple[PullSecret, ...] = ()
    """Credentials of registries."""

    @property
    def engine(self) -> Container:
        return self.containers[0]


class PodMetadata(Shape, frozen=True, kw_only=True):
    """Labels and annotations of the engine pods."""

    labels: Annotated[Mapping[str, LabelValue], entries(most=32)] = {}
    """Pod labels; the prefix modelplane.ai/ is reserved."""
    annotations: Annotated[Mapping[str, Annotated[str, text(most=8192)]], entries(most=32)] = {}
    """Pod annotations."""

    RULES = LABEL_RULES + ANNOTATION_RULES


class TemplateMetadata(Shape, frozen=True, kw_only=True):
    """Metadata of composed objects."""

    labels: Annotated[Mapping[str, LabelValue], entries(most=32)] = {}
    """Labels of composed ModelReplicas and ModelEndpoints; the prefix modelplane.ai/ is reserved."""

    RULES = LABEL_RULES


class PodTemplate(Shape, frozen=True, kw_only=True):
    """The curated slice of a pod template."""

    metadata: PodMetadata = PodMetadata()
    """Labels and annotations of the engine pods."""
    spec: PodSpec | None = None
    """What is chosen about the pod. A member without it is admitted and cannot be composed; a condition says so."""
