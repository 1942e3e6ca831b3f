"""Record random strategic merge patches with the answers of Kubernetes' strategicpatch (main.go beside this file)."""

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


class Author:
    """Writes random Deployments, and patches of them with every directive."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.patch = False

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def directed(self, chance: float) -> bool:
        """Whether to use a form that only patches have."""
        return self.patch and self.maybe(chance)

    def some(self, letters: str) -> list[str]:
        chosen = [letter for letter in letters if self.maybe()]
        self.random.shuffle(chosen)
        return chosen

    def mapping(self, letters: str) -> JSON:
        made: JSON = {key: self.random.choice("12") for key in self.some(letters)}
        for key in self.some(letters):
            if self.directed(0.3):
                made[key] = None
        if self.directed(0.1):
            made["$patch"] = self.random.choice(["replace", "delete", "merge"])
        return made

    def listed(self, items: list[JSON], key: str, names: str) -> list[JSON]:
        if self.directed(0.2):
            items = [*items, {key: self.random.choice(names), "$patch": "delete"}]
        if self.directed(0.07):
            items = [{"$patch": "replace"}, *items]
        return items

    def port(self, number: int) -> JSON:
        made: JSON = {"containerPort": number}
        if self.maybe(0.6):
            made["protocol"] = self.random.choice(["TCP", "UDP"])
        return made

    def variable(self, name: str) -> JSON:
        if self.maybe(0.7):
            return {"name": name, "value": self.random.choice("12")}
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": self.random.choice("ab")}}}

    def container(self, name: str) -> JSON:
        made: JSON = {"name": name}
        if self.maybe(0.7):
            made["image"] = None if self.directed(0.2) else self.random.choice(["i:1", "i:2"])
        if self.maybe(0.4):
            made["args"] = self.some("xyz")
        if self.maybe(0.4):
            made["env"] = self.listed([self.variable(key) for key in self.some("ABC")], "name", "ABC")
        if self.maybe(0.3):
            made["ports"] = [self.port(number) for number in self.random.sample([80, 81], self.random.randint(0, 2))]
        if self.maybe(0.3):
            made["resources"] = {"limits": self.mapping("cm")}
        return made

    def volume(self, name: str) -> JSON:
        kind = self.random.choice(["emptyDir", "hostPath", "configMap"])
        source = {"emptyDir": {}, "hostPath": {"path": "/x"}, "configMap": {"name": "c"}}[kind]
        made: JSON = {"name": name, kind: source}
        if self.directed(0.4):
            made["$retainKeys"] = ["name", kind]
        return made

    def pod(self) -> JSON:
        made: JSON = {}
        if self.maybe(0.8):
            names = self.some("abcd")
            made["containers"] = self.listed([self.container(name) for name in names], "name", "abcd")
            if self.directed(0.5):
                order = list(names)
                for name in self.some("abcd"):
                    if name not in order:
                        order.insert(self.random.randint(0, len(order)), name)
                if self.maybe(0.1):
                    self.random.shuffle(order)
                made["$setElementOrder/containers"] = [{"name": name} for name in order]
        if self.maybe():
            made["volumes"] = self.listed([self.volume(name) for name in self.some("vw")], "name", "vw")
        if self.maybe(0.3):
            made["nodeSelector"] = self.mapping("ab")
        if self.maybe(0.3):
            made["tolerations"] = [{"key": key} for key in self.some("tu")]
        if self.maybe(0.3):
            made["imagePullSecrets"] = [{"name": name} for name in self.some("st")]
        return made

    def deployment(self, patch: bool) -> JSON:
        self.patch = patch
        metadata: JSON = {"labels": self.mapping("ab")}
        if self.maybe():
            finalizers = metadata["finalizers"] = self.some("fgh") or ["f"]
            if self.directed(0.3):
                gone = [name for name in self.some("fgh") if name not in finalizers]
                metadata["$deleteFromPrimitiveList/finalizers"] = gone
            if self.directed(0.3):
                rest = [name for name in self.some("fgh") if name not in finalizers]
                metadata["$setElementOrder/finalizers"] = [*finalizers, *rest]
        spec: JSON = {}
        if self.maybe(0.4):
            spec["replicas"] = None if self.directed(0.3) else self.random.randint(0, 2)
        if self.maybe(0.4):
            spec["strategy"] = {"type": "Recreate"}
            if self.maybe():
                spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": self.random.randint(0, 1)}}
            if self.directed(0.6):
                spec["strategy"]["$retainKeys"] = list(spec["strategy"])
        if self.maybe(0.8):
            spec["template"] = {"spec": self.pod()}
        return {"metadata": metadata, "spec": spec}


def main() -> None:
    author = Author(20261129)
    cases = []
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdin is not None
        assert recorder.stdout is not None
        for _ in range(CASES):
            case = {"original": author.deployment(False), "patch": author.deployment(True)}
            recorder.stdin.write(json.dumps(case) + "\n")
            recorder.stdin.flush()
            cases.append({**case, "answer": json.loads(recorder.stdout.readline())})
        recorder.stdin.close()
    text = json.dumps(cases, separators=(",", ":"))
    OUTPUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
