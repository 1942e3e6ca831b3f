"""Record random applies and updates with the answers of Kubernetes' structured-merge-diff (main.go beside this file)."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

RUNS = 400
OUTPUT = Path(__file__).parent / "recorded.json.gz"
JSON = dict[str, Any]


class Author:
    """Writes random objects of the schema that main.go declares."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def some(self, letters: str) -> list[str]:
        chosen = [letter for letter in letters if self.maybe()]
        self.random.shuffle(chosen)
        return chosen

    def item(self, name: str) -> JSON:
        made: JSON = {"name": name}
        if self.maybe():
            made["v"] = self.random.randint(0, 2)
        if self.maybe(0.3):
            made["tags"] = self.some("pqrs")
        if self.maybe(0.3):
            made["sub"] = {key: self.random.randint(0, 1) for key in self.some("xy")}
        return made

    def free(self, depth: int = 0) -> JSON:
        made: JSON = {}
        for key in "ab":
            kind = self.random.random()
            if kind < 0.3:
                made[key] = self.random.randint(0, 1)
            elif kind < 0.45:
                made[key] = [1] * self.random.randint(0, 2)
            elif kind < 0.65 and depth < 2:
                made[key] = self.free(depth + 1)
        return made

    def spec(self) -> JSON:
        made: JSON = {}
        if self.maybe():
            made["n"] = self.random.randint(0, 2)
        for key in ("atomic", "set"):
            if self.maybe(0.4):
                made[key] = self.some("pqrs")
        if self.maybe(0.6):
            made["items"] = [self.item(name) for name in self.some("abcd")]
        if self.maybe(0.3):
            made["whole"] = {key: self.random.choice("12") for key in self.some("ab")}
        if self.maybe(0.4):
            made["map"] = {key: self.random.choice("12") for key in self.some("kl")}
        if self.maybe(0.4):
            made["free"] = self.free()
        return made

    def object(self) -> JSON:
        made: JSON = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        if self.maybe(0.3):
            made["metadata"]["labels"] = {key: self.random.choice("12") for key in self.some("kl")}
        if self.maybe(0.9):
            made["spec"] = self.spec()
        return made


def main() -> None:
    author = Author(20261129)
    runs = []
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdin is not None
        assert recorder.stdout is not None
        for _ in range(RUNS):
            steps: list[JSON] = []
            for position in range(author.random.randint(2, 8)):
                given = author.object()
                applies = author.maybe(0.7)
                if not applies and steps and author.maybe():
                    given = json.loads(json.dumps(steps[-1]["answer"]["object"]))
                    given.setdefault("metadata", {"name": "w"})
                    given.setdefault("spec", {}).update(author.spec())
                step: JSON = {
                    "op": "apply" if applies else "update",
                    "manager": author.random.choice(["one", "two", "three"]),
                    "force": author.maybe(),
                    "object": given,
                }
                recorder.stdin.write(json.dumps({**step, "reset": position == 0}) + "\n")
                recorder.stdin.flush()
                step["answer"] = json.loads(recorder.stdout.readline())
                if step["answer"]["error"] or not step["answer"]["managers"]:
                    break
                steps.append(step)
            runs.append(steps)
        recorder.stdin.close()
    text = json.dumps([steps for steps in runs if steps], sort_keys=True, separators=(",", ":"))
    OUTPUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
