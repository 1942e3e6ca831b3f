"""Kubernetes' own CEL library as a program (`cel/main.go`): built once, asked line by line."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

MODULE: Final = Path(__file__).with_name("cel")
MEMORY: Final = 8 * 1024**3
"""Bytes of address space: some texts make the library ask for whatever there is."""


def judge(binaries: Path) -> Path:
    """The built program, in the cache beside the ``binaries`` of its version."""
    sources = b"".join((MODULE / name).read_bytes() for name in ("main.go", "rules.go", "go.mod", "go.sum"))
    built = binaries / f"selectors-{sha256(sources).hexdigest()[:12]}"
    if not built.exists():
        if shutil.which("go") is None:
            if os.environ.get("CI") == "true":
                pytest.fail("the judge of selectors is built with Go, and there is no 'go' in PATH")
            pytest.skip("the judge of selectors is built with Go; install it from https://go.dev/dl/")
        partial = built.with_suffix(f".{os.getpid()}")
        subprocess.run(["go", "build", "-C", MODULE, "-buildvcs=false", "-o", partial, "."], check=True, timeout=600)
        partial.rename(built)
    return built


def asked(judge: Path, questions: Sequence[Any], kind: str = "selectors") -> list[dict[str, Any]]:
    """The answers to questions of a kind: selectors, schemas or definitions."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run(
        [judge, kind], input=lines, capture_output=True, text=True, timeout=600, check=True, preexec_fn=_limit
    )
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
