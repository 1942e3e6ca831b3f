"""What a mock engine is told: identity and model from the command line, behaviour from pod annotations.

Behaviour can change while the engine runs: the node runtime rewrites the settings file and sends SIGHUP. A value that
cannot be read keeps its default and is reported in the engine's log and the pod's events, never silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

PREFIX: Final = "mock.modelplane.ai/"
DEFAULT_MODEL: Final = "mock"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the engine behaves; every field is one annotation, see `ANNOTATIONS`."""

    load_seconds: float = 0.0
    tokens_per_second: float = 0.0
    first_token_seconds: float = 0.0
    max_concurrent: int = 256
    kv_cache_tokens: int = 100_000
    drain_seconds: float = 0.5
    served_models: tuple[str, ...] | None = None
    strict_model: bool | None = None
    answer: str = ""
    fail_status: int = 0
    fail_rate: float = 1.0
    health_status: int = 200
    models_status: int = 200
    hang: str = ""
    drop_stream_after_tokens: int = -1
    crash_after_requests: int = 0
    crash_after_seconds: float = 0.0
    exit_code: int = 1


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _flag(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("say true or false")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86_400:
        raise ValueError("say a number of seconds from 0 to 86400")
    return value


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("say a share from 0 to 1")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError("say a count of 0 or more")
    return value


def _status(text: str) -> int:
    value = int(text)
    if not 200 <= value <= 599:
        raise ValueError("say an HTTP status from 200 to 599")
    return value


def _hang(text: str) -> str:
    if text not in ("inference", "health", "all"):
        raise ValueError("say inference, health or all")
    return text


ANNOTATIONS: Final[dict[str, tuple[str, Callable[[str], Any], str]]] = {
    "load-seconds": (
        "load_seconds",
        _seconds,
        "Time until the model counts as loaded; until then every path answers 503.",
    ),
    "tokens-per-second": ("tokens_per_second", _seconds, "Speed of generation; 0 is as fast as possible."),
    "first-token-seconds": ("first_token_seconds", _seconds, "Extra time before the first token."),
    "max-concurrent": ("max_concurrent", _count, "Requests that run at once; the others wait, as the metrics say."),
    "kv-cache-tokens": ("kv_cache_tokens", _count, "Size of the pretended KV cache, for vllm:kv_cache_usage_perc."),
    "drain-seconds": ("drain_seconds", _seconds, "After SIGTERM, time in which new requests are still answered."),
    "served-models": (
        "served_models",
        _names,
        "Comma-separated names in /v1/models instead of the given one; may be empty.",
    ),
    "strict-model": (
        "strict_model",
        _flag,
        "Whether another model name is answered 404; by default if a name was given.",
    ),
    "answer": ("answer", str, "Text to answer with, after the pod's name."),
    "fail-status": ("fail_status", _status, "HTTP status for inference calls instead of an answer."),
    "fail-rate": ("fail_rate", _rate, "Share of the inference calls that fail-status hits, evenly spread; 1 is all."),
    "health-status": ("health_status", _status, "HTTP status of /health once loaded."),
    "models-status": ("models_status", _status, "HTTP status of /v1/models once loaded."),
    "hang": ("hang", _hang, "Never answer: inference, health or all."),
    "drop-stream-after-tokens": (
        "drop_stream_after_tokens",
        _count,
        "Cut the connection of a stream after so many tokens.",
    ),
    "crash-after-requests": (
        "crash_after_requests",
        _count,
        "Exit in the middle of the inference call of this number.",
    ),
    "crash-after-seconds": ("crash_after_seconds", _seconds, "Exit so long after the start; 0 is never."),
    "exit-code": ("exit_code", _count, "Exit code of those two."),
}
"""Annotation (without the prefix) to field, parser and meaning. The table of the docs is made of this one."""


def read_annotations(annotations: Mapping[str, str]) -> tuple[Behaviour, list[str]]:
    """The behaviour that a pod's annotations ask for, and one sentence per annotation that cannot be followed."""
    values: dict[str, Any] = {}
    complaints: list[str] = []
    for key in sorted(annotations):
        if not key.startswith(PREFIX):
            continue
        known = ANNOTATIONS.get(key[len(PREFIX) :])
        if known is None:
            complaints.append(f"annotation {key} is unknown; known are {', '.join(PREFIX + k for k in ANNOTATIONS)}")
            continue
        name, parse, _ = known
        try:
            values[name] = parse(annotations[key])
        except ValueError as error:
            complaints.append(f"annotation {key}={annotations[key]!r} is ignored: {error}")
    return Behaviour(**values), complaints


@dataclass(frozen=True, slots=True)
class Settings:
    """One engine: where it listens, whom it stands for, how it behaves."""

    host: str = "127.0.0.1"
    port: int = 8000
    pod: str = "engine"
    namespace: str = "default"
    model: str = DEFAULT_MODEL
    model_given: bool = False
    stamped: bool = False
    """Whether log lines begin with their time, for the node runtime's log endpoint."""
    behaviour: Behaviour = field(default_factory=Behaviour)

    @property
    def models(self) -> tuple[str, ...]:
        if self.behaviour.served_models is not None:
            return self.behaviour.served_models
        return (self.model,)

    @property
    def strict(self) -> bool:
        return self.model_given if self.behaviour.strict_model is None else self.behaviour.strict_model

    def to_json(self) -> dict[str, Any]:
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "behaviour"}
        own["behaviour"] = {f.name: getattr(self.behaviour, f.name) for f in fields(self.behaviour)}
        return own

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Settings:
        behaviour = dict(data.get("behaviour") or {})
        if behaviour.get("served_models") is not None:
            behaviour["served_models"] = tuple(behaviour["served_models"])
        own = {key: value for key, value in data.items() if key != "behaviour"}
        return replace(cls(**own), behaviour=Behaviour(**behaviour))


def served_name(args: Sequence[str], env: Mapping[str, str]) -> tuple[str, bool]:
    """The model's name as vLLM would take it from a container, and whether it was given on the command line.

    ``--served-model-name`` first, then the variable that Modelplane sets, then ``--model``, then ``mock``.
    """
    named = _option(args, "--served-model-name")
    if named:
        return named, True
    if env.get("MODELPLANE_SERVED_MODEL_NAME"):
        return env["MODELPLANE_SERVED_MODEL_NAME"], False
    model = _option(args, "--model")
    return (model, True) if model else (DEFAULT_MODEL, False)


def _option(args: Sequence[str], name: str) -> str:
    for index, word in enumerate(args):
        if word == name and index + 1 < len(args):
            return args[index + 1]
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
    return ""
