"""The golden set through the offline judgement: every kind has enough cases, and each ends as it says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from modelplane.api.kinds import DEFINITIONS
from tests.api.admission import admit, changed
from tests.api.bases import BASES
from tests.api.golden import ACCEPTED, REFUSED
from tests.api.test_rules import ACCEPTED as RULED_ACCEPTED
from tests.api.test_rules import REFUSED as RULED_REFUSED
from tests.api.test_rules import generic


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.resource.gvk.kind)
def test_there_are_three_accepted_and_five_refused_cases_of_every_kind(definition: Any) -> None:
    kind = definition.resource.gvk.kind
    assert Counter(case[0] for case in ACCEPTED)[kind] >= 3
    assert Counter(case[0] for case in REFUSED)[kind] >= 5


@pytest.mark.parametrize(("kind", "changes", "reason"), ACCEPTED[len(RULED_ACCEPTED) :])
def test_sensible_objects_are_accepted(kind: str, changes: dict[str, Any], reason: str) -> None:
    assert admit(kind, changed(BASES[kind], changes))[1] == [], reason


@pytest.mark.parametrize(("kind", "changes", "path", "message"), REFUSED[len(RULED_REFUSED) :])
def test_wrong_objects_are_refused_at_the_field(kind: str, changes: dict[str, Any], path: str, message: str) -> None:
    complaints = admit(kind, changed(BASES[kind], changes))[1]
    assert [said for where, said in complaints if generic(where) == generic(path) and message in said], complaints
