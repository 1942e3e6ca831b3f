"""The reviews of our own kinds: what their schemas cannot say, as field errors for the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from modelplane.api import inference_class, model_deployment, model_replica
from modelplane.api.meta import GVK, Object
from modelplane.plan.cel.admission import complaints
from modelplane.server.admission import Review
from modelplane.server.schema import ErrorType, FieldError


def review(new: Object, old: Object | None) -> Sequence[FieldError]:
    """Selectors that do not compile and attribute names that no driver could publish."""
    return [
        FieldError(path=said.path, type=ErrorType.INVALID, bad_value=said.value, message=said.message)
        for said in complaints(new, old)
    ]


REVIEWS: Final[Mapping[GVK, Review]] = dict.fromkeys(
    (model_deployment.KIND, model_replica.KIND, inference_class.KIND), review
)
