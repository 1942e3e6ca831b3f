"""Which API servers wrote the state of a data directory, so that no others are started on it.

A fleet's objects lie in our store or in etcd, and neither reads the other's. Started with the wrong one a directory would look
empty, and nodes of it would go on running engines that nobody knows; etcd written by a newer Kubernetes may not be read at all.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from modelplane.errors import PermanentError
from modelplane.local.layout import Layout

EMBEDDED: Final = "embedded"
UNKNOWN: Final = "Kubernetes of an unknown version"
_VERSION: Final = re.compile(r"Kubernetes v(\S+)")


class OtherServers(PermanentError):
    """The directory was written by other servers; the message says by which, and what to do."""


def kubernetes(binaries: Path) -> str:
    """The release of a folder of binaries, as `Kubernetes 1.36.3`. Raises PermanentError where kube-apiserver does not say it."""
    asked = [str(binaries / "kube-apiserver"), "--version"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PermanentError(f"{asked[0]} cannot be run ({error}); build it with `make kubernetes`") from error
    found = _VERSION.search(said)
    if found is None:
        raise PermanentError(
            f"{asked[0]} --version says no version but {said.strip()!r}; build it with `make kubernetes`"
        )
    return f"Kubernetes {found[1]}"


def of(layout: Layout) -> str | None:
    """Who wrote the directory; None for one that nobody wrote. Directories without the file are told by their stores."""
    if layout.servers.exists():
        return layout.servers.read_text().strip()
    if (layout.control / "etcd").exists():
        return UNKNOWN
    return EMBEDDED if any(layout.control.glob("*.db")) else None


def claim(layout: Layout, servers: str) -> None:
    """Note that these servers write the directory from now on. Raises `OtherServers` when others did."""
    check(layout, servers)
    layout.root.mkdir(parents=True, exist_ok=True)
    layout.servers.write_text(f"{servers}\n")


def check(layout: Layout, servers: str) -> None:
    """Raises `OtherServers` when others wrote the directory."""
    before = of(layout)
    if before in (None, servers):
        return
    if before == UNKNOWN and servers != EMBEDDED:
        return
    again = "`modelplane up` without --kubernetes" if before == EMBEDDED else f"--kubernetes and a folder of {before}"
    raise OtherServers(
        f"{layout.root} holds the state of a fleet on {_words(before)}, which {_words(servers)} cannot take over; start it with"
        f" {again}, choose another --data-dir, or give the state up with `modelplane down --purge`"
    )


def _words(servers: str) -> str:
    return "the embedded API server" if servers == EMBEDDED else servers
