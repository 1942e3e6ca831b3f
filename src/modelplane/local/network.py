"""A network namespace of its own for a fleet on real Kubernetes.

A real API server takes no loopback address as an endpoint. In a namespace of its own every address of one range can be made
local without touching the machine's network, so that each pod has its own address and its own container port. Nothing
outside reaches it, and `modelplane shell` is the door.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Final

from modelplane.errors import PermanentError

RANGE: Final = IPv4Network("10.244.0.0/16")
GATEWAYS: Final = "10.244.0.1"
"""Where every gateway listens, each on ports of its own."""

_BLOCK: Final = 1024
_SETUP: Final = f'ip link set lo up && ip route add local {RANGE} dev lo && exec "$@"'


def pods_of(position: int) -> IPv4Network:
    """The pod range of the cluster at this position of the fleet; the first block is the gateways'. Raises PermanentError."""
    blocks = RANGE.num_addresses // _BLOCK - 1
    if position >= blocks:
        raise PermanentError(f"a fleet on real Kubernetes has at most {blocks} clusters; this one has more")
    return IPv4Network((int(RANGE.network_address) + (position + 1) * _BLOCK, 22))


def inside() -> bool:
    """Whether this process is in such a namespace: addresses of the range are local."""
    try:
        socket.create_server((GATEWAYS, 0)).close()
    except OSError:
        return False
    return True


def enter(argv: Sequence[str]) -> None:
    """Become ``argv`` in a new namespace. Does not return; raises PermanentError where that cannot be."""
    _need("unshare", "ip")
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    tried = subprocess.run(["unshare", *user, "--net", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise PermanentError(
            f"this user may not make a network namespace ({tried.stderr.strip()}); run it as root, or allow user namespaces:"
            " user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0 where AppArmor restricts them"
        )
    os.execvp("unshare", ["unshare", *user, "--net", "sh", "-c", _SETUP, "sh", *argv])


def join(pid: int, argv: Sequence[str]) -> None:
    """Become ``argv`` in the namespace of a process. Does not return; raises PermanentError where that cannot be."""
    _need("nsenter")
    user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
    os.execvp("nsenter", ["nsenter", f"--target={pid}", *user, "--net", "--", *argv])


def foreign(pid: int) -> bool:
    """Whether a process is in another network namespace than this one."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    except OSError:
        return False


def _need(*tools: str) -> None:
    if sys.platform != "linux":
        raise PermanentError("network namespaces are a facility of Linux; --kubernetes works there alone")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise PermanentError(f"{' and '.join(missing)} not found; install util-linux and iproute2")
