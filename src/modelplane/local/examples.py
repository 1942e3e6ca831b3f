"""Where the example manifests are: beside the package when installed, in the checkout otherwise."""

from __future__ import annotations

from pathlib import Path

import modelplane
from modelplane.errors import PermanentError


def directory(name: str) -> Path:
    """Raises `PermanentError` when this installation has no such example."""
    package = Path(modelplane.__file__).parent
    for root in (package / "examples", package.parents[1] / "examples"):
        if (root / name).is_dir():
            return root / name
    raise PermanentError(f"the example {name!r} is not part of this installation; see the project's repository")
