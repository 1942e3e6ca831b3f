"""Where the real control plane's binaries and Helm are.

The environment names them; `make conformance` does so for what `make kubernetes` built, so that `make test` takes the same time
on every machine.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

MODULE: Final = Path(__file__).with_name("go.mod")
WITHOUT: Final = (
    "asks real Kubernetes, as `make kubernetes && make conformance` does (or set MODELPLANE_KUBERNETES to its binaries)"
)


def pinned() -> str:
    """The version that go.mod asks for."""
    found = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", MODULE.read_text(), re.MULTILINE)
    assert found
    return found[1]


def folder() -> Path | None:
    """None where nobody asked."""
    named = os.environ.get("MODELPLANE_KUBERNETES")
    return Path(named) if named else None


def helm() -> Path | None:
    """Helm, which is built beside them; else whatever the environment or the path has."""
    built = folder()
    if built is not None and (built / "helm").exists():
        return built / "helm"
    named = os.environ.get("MODELPLANE_HELM") or shutil.which("helm")
    return Path(named) if named else None
