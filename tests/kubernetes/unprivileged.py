"""A command as somebody without rights runs it: in a user namespace of their own they may make a network namespace.

Tests that root runs become nobody for that. Where the project or its interpreter lies in a private directory (a home, say), they
do so in a mount namespace in which such directories have nothing in them but what the command needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pytest

NOBODY: Final = 65534
ROOT: Final = Path(__file__).parents[2]
_MOUNTED: Final = """
set -e
private=$1; shift; needed=$1; shift
scratch=$(mktemp -d)
mount -t tmpfs tmpfs "$scratch"
number=0
for path in $needed; do
  number=$((number + 1)); mkdir "$scratch/$number"; mount --bind "$path" "$scratch/$number"
done
for path in $private; do mount -t tmpfs -o mode=755 tmpfs "$path"; done
number=0
for path in $needed; do
  number=$((number + 1)); mkdir -p "$path"; mount --bind "$scratch/$number" "$path"
done
umount -l "$scratch"; rmdir "$scratch"
exec "$@"
"""


@contextmanager
def unprivileged(*needed: Path) -> Iterator[tuple[list[str], Path]]:
    """What to put before a command so that it runs without rights and still reads ``needed``, and a directory for it to write
    to. Skips where this machine does not allow it."""
    home = Path(mkdtemp(prefix="modelplane-unprivileged-"))
    try:
        prefix = _become(home, needed) if os.geteuid() == 0 else []
        tried = subprocess.run(
            [*prefix, "unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", "import modelplane"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if tried.returncode:
            pytest.skip(f"a user without rights may not make a network namespace here: {tried.stderr.strip()[-200:]}")
        yield prefix, home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _become(home: Path, needed: Iterable[Path]) -> list[str]:
    if not all(shutil.which(tool) for tool in ("setpriv", "unshare", "mount")):
        pytest.skip("root becomes nobody by setpriv, unshare and mount of util-linux; they are not here")
    os.chown(home, NOBODY, NOBODY)
    every = {path.resolve() for path in (*needed, ROOT, Path(sys.prefix), Path(sys.base_prefix))}
    private = {p for path in every for p in path.parents if not p.stat().st_mode & 0o001}
    outermost = [path for path in private if not private & set(path.parents)]
    innermost = [path for path in every if not every & set(path.parents) and any(p in path.parents for p in outermost)]
    named = [" ".join(map(str, sorted(paths))) for paths in (outermost, innermost)]
    mounted = ["unshare", "--mount", "sh", "-c", _MOUNTED, "sh", *named] if outermost else []
    dropped = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return [*mounted, *dropped, "env", f"HOME={home}", f"TMPDIR={home}"]
