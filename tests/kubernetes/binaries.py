"""Where the real control plane's binaries and Helm are: named by the environment, or in the cache that `make kubernetes` fills."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

MODULE: Final = Path(__file__).with_name("go.mod")
WITHOUT: Final = "no Kubernetes binaries; `make kubernetes` builds them, or MODELPLANE_KUBERNETES names their folder"


def pinned() -> str:
    """The version that go.mod asks for."""
    found = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", MODULE.read_text(), re.MULTILINE)
    assert found
    return found[1]


def folder() -> Path | None:
    """None where nothing was built."""
    if named := os.environ.get("MODELPLANE_KUBERNETES"):
        return Path(named)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("MODELPLANE_KUBERNETES_CACHE") or caches / "modelplane" / "kubernetes")
    built = cache / pinned()
    return built if built.is_dir() else None


def helm() -> Path | None:
    """Helm, which is built beside them; else whatever the environment or the path has."""
    built = folder()
    if built is not None and (built / "helm").exists():
        return built / "helm"
    named = os.environ.get("MODELPLANE_HELM") or shutil.which("helm")
    return Path(named) if named else None
