"""Pod addresses: each pod its own of 127.64.0.0/10 where the system has the whole of 127.0.0.0/8 (Linux), so that container
ports are what the manifest says; elsewhere 127.0.0.1, with a free port in the pod annotation `modelplane.ai/host-port`."""

from __future__ import annotations

import hashlib
import ipaddress
import socket
import sys
from collections.abc import Collection
from typing import Final, Protocol

HOST_PORT: Final = "modelplane.ai/host-port"
RANGE: Final = ipaddress.IPv4Network("127.64.0.0/10")
BLOCK: Final = 4096
"""Addresses of one cluster; 1,022 clusters have blocks of their own."""


class Addresses(Protocol):
    def take(self, used: Collection[str]) -> str:
        """An address that no other pod of the cluster has."""
        ...

    shared: bool
    """Whether all pods have one address and need ports of their own."""


class OwnAddresses:
    """Addresses from a network, counted on, so that a freed one is not taken at once by somebody else."""

    shared = False

    def __init__(self, network: ipaddress.IPv4Network) -> None:
        self._network = network
        self._next = 1

    @classmethod
    def of_cluster(cls, identity: str) -> OwnAddresses:
        """The block of a cluster by a hash of its identity. Two clusters may meet in one block: an address where somebody
        listens already is passed over when the engine is started."""
        blocks = RANGE.num_addresses // BLOCK
        block = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:4]) % blocks
        return cls(ipaddress.IPv4Network((int(RANGE.network_address) + block * BLOCK, 20)))

    def take(self, used: Collection[str]) -> str:
        size = self._network.num_addresses
        for _ in range(size):
            address = str(self._network[self._next])
            self._next = self._next % (size - 2) + 1
            if address not in used:
                return address
        raise OSError(f"all {size - 2} pod addresses of {self._network} are in use")


class SharedAddress:
    """Everything on one address."""

    shared = True

    def __init__(self, address: str = "127.0.0.1") -> None:
        self._address = address

    def take(self, used: Collection[str]) -> str:
        return self._address


def for_cluster(identity: str, network: str | None = None) -> Addresses:
    """What this system offers. `network` is given where pods have a real range (a network namespace); 127.0.0.1/32 is the
    one address that every system has."""
    if network:
        found = ipaddress.IPv4Network(network)
        return OwnAddresses(found) if found.num_addresses > 1 else SharedAddress(str(found[0]))
    return OwnAddresses.of_cluster(identity) if sys.platform == "linux" else SharedAddress()


def free_port(address: str) -> int:
    """A port of the address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
