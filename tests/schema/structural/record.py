"""Record random schemas and objects with the answers of Kubernetes' apiextensions packages (main.go beside this file).

Values of the wrong type meet no schema with a format: there the reference names Go's types, or says nothing at all.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

CASES = 600
OUTPUT = Path(__file__).parent / "recorded.json.gz"
JSON = dict[str, Any]
FORMATS = ("date-time", "byte", "ipv4", "ipv6", "uuid", "date", "hostname", "uri", "cidr", "mac")
TEXTS = (
    "a", "b", "bb", "abc", "", "2026-01-01T00:00:00Z", "1h", "10.0.0.1", "YQ==", "2026-01-01", "::1", "x@y.z", "a.b",
    "http://a/b", "10.0.0.0/8", "00:11:22:33:44:55", "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
)  # fmt: skip


class Author:
    """Writes random structural schemas, and objects that nearly fit them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def scalar(self) -> JSON:
        kind = self.random.choice(["string", "integer", "number", "boolean", "either"])
        if kind == "either":
            both = {"anyOf": [{"type": "integer"}, {"type": "string"}]} if self.maybe() else {}
            return {"x-kubernetes-int-or-string": True, **both}
        made: JSON = {"type": kind}
        if kind == "string":
            for key, value in (("enum", ["a", "bb"]), ("pattern", "^[a-c]+$"), ("maxLength", 2), ("minLength", 1)):
                if self.maybe(0.25):
                    made[key] = value
            if self.maybe(0.25):
                made["format"] = self.random.choice(FORMATS)
        if kind in ("integer", "number"):
            for key, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
                if self.maybe(0.3):
                    made[key] = self.random.randint(0, 3)
                    if self.maybe(0.3):
                        made[exclusive] = True
            if self.maybe(0.15):
                made["multipleOf"] = 2
            if kind == "integer" and self.maybe(0.2):
                made["format"] = self.random.choice(["int32", "int64"])
        if self.maybe(0.2):
            made["nullable"] = True
        if kind in ("string", "integer", "boolean") and self.maybe(0.2):
            made["default"] = {"string": "a", "integer": 2, "boolean": True}[kind]
        return made

    def mapping(self, depth: int) -> JSON:
        made: JSON = {"type": "object"}
        if self.maybe(0.75):
            made["properties"] = {key: self.schema(depth + 1) for key in "abc" if self.maybe(0.7)}
            if self.maybe(0.3):
                made["required"] = [key for key in "abcd" if self.maybe(0.4)]
            if self.maybe(0.15):
                made[self.random.choice(["anyOf", "oneOf", "allOf"])] = [{"required": [key]} for key in "ab"]
        else:
            made["additionalProperties"] = self.schema(depth + 1)
        for key, value in (
            ("x-kubernetes-preserve-unknown-fields", True),
            ("minProperties", self.random.randint(1, 2)),
            ("maxProperties", self.random.randint(0, 2)),
            ("nullable", True),
        ):
            if self.maybe(0.15):
                made[key] = value
        if self.maybe(0.08):
            made["not"] = {"required": ["a"]}
        return made

    def listed(self, depth: int) -> JSON:
        made: JSON = {"type": "array"}
        kind = self.random.random()
        if kind < 0.3:
            made["x-kubernetes-list-type"] = "map"
            made["x-kubernetes-list-map-keys"] = ["a"]
            key = {"type": self.random.choice(["string", "integer"])}
            made["items"] = {"type": "object", "required": ["a"], "properties": {"a": key, "b": self.schema(depth + 2)}}
        elif kind < 0.5:
            made["x-kubernetes-list-type"] = "set"
            made["items"] = {"type": "string"}
        else:
            made["items"] = self.schema(depth + 1)
        if self.maybe(0.2):
            made["maxItems"] = self.random.randint(0, 2)
        if self.maybe(0.2):
            made["minItems"] = self.random.randint(1, 2)
        return made

    def schema(self, depth: int = 0) -> JSON:
        kind = self.random.random()
        if depth > 2 or kind < 0.4:
            return self.scalar()
        return self.mapping(depth) if kind < 0.75 else self.listed(depth)

    def value(self, schema: JSON) -> object:
        if self.maybe(0.06) and "format" not in schema:
            return self.random.choice([None, "a", 1, 1.5, True, [], {}, ["a"], {"a": 1}])
        if schema.get("x-kubernetes-int-or-string"):
            return self.random.choice(["a", 1])
        match schema["type"]:
            case "string":
                return self.random.choice(TEXTS)
            case "integer":
                return self.random.choice([0, 1, 2, 3, 4, 3_000_000_000])
            case "number":
                return self.random.choice([0, 1, 2.5, 3, 4])
            case "boolean":
                return self.maybe()
            case "array":
                return [self.value(schema["items"]) for _ in range(self.random.randint(0, 3))]
        if "additionalProperties" in schema:
            return {key: self.value(schema["additionalProperties"]) for key in "xy" if self.maybe()}
        made = {key: self.value(child) for key, child in schema.get("properties", {}).items() if self.maybe(0.75)}
        if self.maybe(0.1):
            made["z"] = self.random.choice([1, {"q": None}, None])
        return made


def main() -> None:
    author = Author(20261129)
    cases = []
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdin is not None
        assert recorder.stdout is not None
        while len(cases) < CASES:
            spec = author.schema()
            case: JSON = {"schema": {"type": "object", "properties": {"spec": spec}}}
            case["object"] = {"spec": author.value(spec)}
            recorder.stdin.write(json.dumps(case) + "\n")
            recorder.stdin.flush()
            answer = json.loads(recorder.stdout.readline())
            if "error" not in answer:
                cases.append({**case, "answer": answer})
        recorder.stdin.close()
    text = json.dumps(cases, separators=(",", ":"))
    OUTPUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
