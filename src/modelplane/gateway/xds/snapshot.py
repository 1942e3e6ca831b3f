"""The resources of one proxy in wire form, with versions that are hashes of their content.

A version must mean the same before and after a restart of this process, so that a proxy that comes back with what it
has is sent only what differs. Unchanged resources keep their bytes: only what changed is encoded again.
"""

from __future__ import annotations

import hashlib

import msgspec

from modelplane.api.meta import Object
from modelplane.gateway import wire
from modelplane.gateway.xds.configuration import Configuration


class Entry(msgspec.Struct, frozen=True):
    """One resource: as JSON for comparing, as bytes for sending (a discovery.v3.Resource)."""

    source: Object
    version: str
    data: bytes


class Snapshot(msgspec.Struct, frozen=True):
    """By type and name."""

    entries: dict[str, dict[str, Entry]]

    def version(self, type_: str, name: str) -> str | None:
        entry = self.entries.get(type_, {}).get(name)
        return entry.version if entry else None

    def names(self, type_: str) -> set[str]:
        return set(self.entries.get(type_, ()))


def snapshot(configuration: Configuration, previous: Snapshot | None = None) -> Snapshot:
    """Encode a configuration. Raises WireError when a resource does not fit Envoy's schema."""
    entries: dict[str, dict[str, Entry]] = {}
    for type_, resources in configuration.items():
        old = previous.entries.get(type_, {}) if previous else {}
        entries[type_] = {
            name: known
            if (known := old.get(name)) is not None and known.source == source
            else _entry(type_, name, source)
            for name, source in resources.items()
        }
    return Snapshot(entries)


def _entry(type_: str, name: str, source: Object) -> Entry:
    body = wire.any_of(type_, source)
    version = hashlib.sha256(body).hexdigest()[:16]
    resource = {"name": name, "version": version, "resource": body}
    return Entry(source, version, wire.encode("envoy.service.discovery.v3.Resource", resource))
