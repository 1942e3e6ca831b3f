"""A network namespace of its own for a fleet on real Kubernetes.

A real API server takes no loopback address as an endpoint. In a namespace of its own every address of one range can be made
local without touching the machine's network, so that each pod has its own address and its own container port. Nothing
outside reaches it, and `modelplane shell` is the door. It lives as long as any process in it: who comes after a crash of
`modelplane up` joins what is left.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network
from typing import Final

from modelplane.errors import PermanentError

RANGE: Final = IPv4Network("10.244.0.0/16")
GATEWAYS: Final = "10.244.0.1"
"""Where every gateway listens, each on ports of its own."""

_BLOCK: Final = 1024
_PROBES: Final = (GATEWAYS, "10.244.255.254")
"""Both ends of the range: a machine whose own pods have a part of it has some of its addresses, and no route to all."""
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
        for address in _PROBES:
            socket.create_server((address, 0)).close()
    except OSError:
        return False
    return True


def enter(argv: Sequence[str]) -> None:
    """Become ``argv`` in a new namespace. Does not return; raises PermanentError where that cannot be."""
    _need("unshare", "ip")
    try:
        unshare = allowed(["unshare"], ["--user", "--map-root-user"], ["--net"])
    except PermanentError as error:
        raise PermanentError(
            f"this user may not make a network namespace ({error}); run it as root, or allow user namespaces:"
            " user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0 where AppArmor restricts them"
        ) from error
    os.execvp("unshare", [*unshare, "sh", "-c", _SETUP, "sh", *argv])


def join(pid: int, argv: Sequence[str]) -> None:
    """Become ``argv`` in the namespace of a process. Does not return; raises PermanentError where that cannot be."""
    _need("nsenter")
    try:
        nsenter = allowed(["nsenter", f"--target={pid}"], ["--user", "--preserve-credentials"], ["--net", "--"])
    except PermanentError as error:
        raise PermanentError(
            f"this user may not join the network namespace of process {pid} ({error}); be the user who started the fleet"
        ) from error
    os.execvp("nsenter", [*nsenter, *argv])


def allowed(tool: Sequence[str], user: Sequence[str], rest: Sequence[str]) -> list[str]:
    """The call that this user may make: root's, or the one by way of a user namespace.

    Being root says nothing: in a container root usually lacks CAP_SYS_ADMIN, and yet may make a user namespace. Raises
    PermanentError with what the tool said where neither works.
    """
    said = ""
    for call in ([*tool, *rest], [*tool, *user, *rest]):
        tried = subprocess.run([*call, "true"], capture_output=True, text=True, check=False)
        if not tried.returncode:
            return call
        said = tried.stderr.strip()
    raise PermanentError(said)


def foreign(pid: int) -> bool:
    """Whether a process is in another network namespace than this one."""
    there = _namespace(pid)
    return there is not None and there != _namespace(os.getpid())


def shared_by_most(pids: Iterable[int]) -> int | None:
    """One of those processes in the other network namespace that most of them are in; None where all are in this one."""
    found = [(pid, there) for pid in pids if foreign(pid) and (there := _namespace(pid)) is not None]
    if not found:
        return None
    ((most, _),) = Counter(there for _, there in found).most_common(1)
    return next(pid for pid, there in found if there == most)


def _namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def _need(*tools: str) -> None:
    if sys.platform != "linux":
        raise PermanentError("network namespaces are a facility of Linux; --kubernetes works there alone")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise PermanentError(f"{' and '.join(missing)} not found; install util-linux and iproute2")
