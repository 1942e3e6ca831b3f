"""Random schemas and objects, held against what Kubernetes' own apiextensions packages answered (recorded beside)."""

import gzip
import json
from pathlib import Path

import pytest

from modelplane.server.builtin import object_meta
from modelplane.server.schema.default import default, drop_nulls
from modelplane.server.schema.node import Compiler
from modelplane.server.schema.prune import prune
from modelplane.server.schema.validate import validate

CASES = json.loads(gzip.decompress((Path(__file__).parent / "structural" / "recorded.json.gz").read_bytes()))


@pytest.mark.parametrize("part", range(6))
def test_objects_are_pruned_defaulted_and_judged_as_the_reference_did(part: int) -> None:
    for number, case in enumerate(CASES[part::6]):
        at, answer = f"case {part + 6 * number}", case["answer"]
        node = Compiler().compile(case["schema"])
        kept, unknown = prune(node, case["object"], object_meta())
        filled = default(node, drop_nulls(node, kept))
        assert unknown == (answer.get("unknown") or []), at
        assert filled == answer["object"], at
        assert sorted(str(error) for error in validate(node, filled)) == sorted(answer["errors"]), at


def test_the_recording_has_good_and_bad_objects_in_number() -> None:
    bad = sum(bool(case["answer"]["errors"]) for case in CASES)
    assert 200 < bad < 500
    assert sum(bool(case["answer"].get("unknown")) for case in CASES) > 20
