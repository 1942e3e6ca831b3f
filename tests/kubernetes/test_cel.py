"""Random device selectors on random devices have the outcome that Kubernetes' own compiler and evaluator give them.

The vectors are what somebody thought of; this is what nobody did. The judge is a small Go program (`cel/main.go`) over the library
that kube-apiserver and kube-scheduler use.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from modelplane.plan.cel import BoundDevice, compile_selector
from modelplane.plan.cel.registry import FUNCTIONS, Overload
from modelplane.plan.matches import Specimen, examine
from tests.kubernetes.library import asked
from tests.kubernetes.selectors import Grammar, device
from tests.kubernetes.tally import count

PAIRS: Final = int(os.environ.get("MODELPLANE_SELECTOR_PAIRS", "20000"))
AGAIN: Final = 40
DEVICES: Final = 4
"""For each selector."""
SEEDS: Final = [int(seed) for seed in os.environ.get("MODELPLANE_SELECTOR_SEEDS", "20261129 20261130").split()]
"""Others are for who looks for more: twenty that were new ended alike, 20,000 pairs each."""

UNSPOKEN: Final = re.compile(r"@(?!sortBy)|^cel\.@|^_(_|in_|&&_|\|\|_|\?\._)|^in$|authorization\.")
"""What the library has for itself: halves of macros, logic and ``in`` which have no overloads here, and kinds of access reviews."""


def specimens(devices: dict[str, Any]) -> list[Specimen]:
    """As they come: what no driver could publish, such as an attribute without a value, is a question here too."""
    return [
        Specimen(name, BoundDevice(one["driver"], one.get("attributes") or {}, one.get("capacity") or {}))
        for name, one in devices.items()
    ]


def outcome(answer: dict[str, Any]) -> dict[str, Any] | str:
    """By device a match, no match or an error, or that there is nothing to run. The words are another suite's."""
    if "compileError" in answer:
        return "does not compile"
    return {name: found if isinstance(found, bool) else "error" for name, found in answer["results"].items()}


def sometimes(judge: Path, question: dict[str, Any], ours: dict[str, Any] | str) -> bool:
    """Whether Kubernetes ends a selector like that as well when it is asked again: it loops over a map in any order."""
    again = [outcome(answer) for answer in asked(judge, [question] * AGAIN)]
    if isinstance(ours, str) or any(isinstance(one, str) for one in again):
        return ours in again
    return all(any(one[name] == found for one in again if isinstance(one, dict)) for name, found in ours.items())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_random_selector_ends_differently_than_in_kubernetes(judge: Path, seed: int) -> None:
    random = Random(seed)
    grammar = Grammar(random)
    questions = [
        {"expression": grammar.selector(), "devices": {str(number): device(random) for number in range(DEVICES)}}
        for _ in range(PAIRS // DEVICES // 2)
    ]
    ended: dict[str, int] = {}
    differing = []
    for question, real in zip(questions, asked(judge, questions), strict=True):
        ours = examine(question["expression"], specimens(question["devices"])).document()
        wanted = outcome(real)
        for one in [wanted] if isinstance(wanted, str) else map(str, wanted.values()):
            ended[one] = ended.get(one, 0) + 1
        if outcome(ours) != wanted and not sometimes(judge, question, outcome(ours)):
            differing.append(f"{question['expression']}\n  ours: {ours}\n  real: {real}")
    assert not differing, f"seed {seed}, {len(differing)} selectors differ:\n" + "\n".join(
        sorted(differing, key=len)[:10]
    )
    assert all(ended.get(one, 0) > PAIRS / 100 for one in ("True", "False", "error", "does not compile")), ended
    count("selector and device pairs", len(questions) * DEVICES)


def signature(overload: Overload) -> str:
    """As the library writes it."""
    params = [str(param) for param in overload.params]
    left = f"{params[0]}.({', '.join(params[1:])})" if overload.member else f"({', '.join(params)})"
    named = re.sub(
        r"\b(duration|timestamp)\b", lambda found: f"google.protobuf.{found[0].title()}", f"{left} -> {overload.result}"
    )
    return lettered(named)


def by_style(signatures: Iterable[str]) -> list[str]:
    """Those with a receiver last: the two kinds never compete for one call."""
    return sorted(signatures, key=lambda one: not one.startswith("("))


def lettered(text: str) -> str:
    """With type parameters called in the order in which they come."""
    names: dict[str, str] = {}
    return re.sub(r"<?\b[A-Z]\b>?", lambda found: names.setdefault(found[0], chr(65 + len(names))), text)


def test_every_function_has_the_overloads_of_kubernetes_in_their_order(judge: Path) -> None:
    done = subprocess.run([judge, "functions"], capture_output=True, text=True, timeout=60, check=True)
    real = {
        name: by_style(map(lettered, overloads))
        for name, overloads in json.loads(done.stdout).items()
        if not UNSPOKEN.search(name) and not any(UNSPOKEN.search(one) for one in overloads)
    }
    compile_selector("true")
    ours = {
        name: by_style(map(signature, overloads))
        for name, overloads in FUNCTIONS.items()
        if name not in ("@in", "includes")
    }
    real.pop("includes", None)
    assert ours == real
    count("functions with the overloads of Kubernetes", len(ours))
