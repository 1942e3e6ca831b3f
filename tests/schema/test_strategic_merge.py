"""Random strategic merge patches, held against what Kubernetes' own library answered (recorded beside)."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.meta import GVK
from modelplane.errors import BadBody
from modelplane.server.builtin import builtin_schema
from modelplane.server.patch import strategic_merge

RECORDED = Path(__file__).parent / "strategic_merge" / "recorded.json.gz"
CASES = json.loads(gzip.decompress(RECORDED.read_bytes()))
NODE = builtin_schema(GVK("apps", "v1", "Deployment")).node


DIFFERENT = "no elements in any of the given slices"
"""How the reference refuses to merge an empty list into an empty list; here the list stays empty."""


def decoded(value: Any) -> Any:
    """What Go's decoder leaves of a merged document: nulls and directives that had nothing to act on go."""
    if isinstance(value, dict):
        return {
            key: decoded(item)
            for key, item in value.items()
            if item is not None and not key.startswith("$") and not (isinstance(item, dict) and "$patch" in item)
        }
    if isinstance(value, list):
        return [decoded(item) for item in value if not (isinstance(item, dict) and "$patch" in item)]
    return value


@pytest.mark.parametrize("part", range(6))
def test_every_patch_gives_what_the_reference_gave(part: int) -> None:
    for number, case in enumerate(CASES[part::6]):
        at, answer = f"case {part + 6 * number}", case["answer"]
        if answer.get("error") == DIFFERENT:
            strategic_merge(case["original"], case["patch"], NODE)
        elif "error" in answer:
            with pytest.raises(BadBody):
                strategic_merge(case["original"], case["patch"], NODE)
        else:
            assert decoded(strategic_merge(case["original"], case["patch"], NODE)) == decoded(answer["object"]), at


def test_the_recording_has_every_directive_and_refusals() -> None:
    text = json.dumps([case["patch"] for case in CASES])
    for directive in ("$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/"):
        assert text.count(directive) > 40
    assert sum("error" in case["answer"] for case in CASES) > 10
