"""``metadata.managedFields`` as a map from field manager to field set, and back, in the API server's order."""

from __future__ import annotations

from typing import Final

import msgspec

from modelplane.api.meta import Object
from modelplane.errors import BadBody
from modelplane.server.fieldmanager.fieldset import FieldSet

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MAX_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"


class Owner(msgspec.Struct, frozen=True, order=True):
    """A field manager; who applies is one manager over all versions, who updates one per version."""

    operation: str
    manager: str
    api_version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        """As conflicts name it: ``"kubectl" using apps/v1``."""
        told = f'"{self.manager}"'
        if self.subresource:
            told += f' with subresource "{self.subresource}"'
        return f"{told} using {self.api_version}" if self.operation == UPDATE else told


class Managed(msgspec.Struct):
    """One manager's fields."""

    fields: FieldSet
    api_version: str
    time: str | None = None


Managers = dict[Owner, Managed]


def owner(operation: str, manager: str, api_version: str, subresource: str) -> Owner:
    return Owner(operation, manager, api_version if operation == UPDATE else "", subresource)


def decode(entries: object) -> Managers:
    """From ``managedFields``. Raises BadBody for what is not well formed."""
    managers: Managers = {}
    for given in entries if isinstance(entries, list) else ():
        if not isinstance(given, dict) or given.get("operation") not in (APPLY, UPDATE):
            raise BadBody("metadata.managedFields: operation must be Apply or Update")
        version = given.get("apiVersion") or ""
        who = owner(given["operation"], given.get("manager") or "", version, given.get("subresource") or "")
        fields = FieldSet.decode(given.get("fieldsV1") or {})
        if who in managers:
            fields = fields.union(managers[who].fields)
        managers[who] = Managed(fields, version, given.get("time"))
    return managers


def encode(managers: Managers) -> list[Object]:
    """To ``managedFields``: appliers first, then by time, manager, version and subresource."""

    def order(item: tuple[Owner, Managed]) -> tuple[str, str, str, str, str]:
        who, managed = item
        return who.operation, managed.time or "", who.manager, managed.api_version, who.subresource

    listed = managers.items() if len(managers) == 1 else sorted(managers.items(), key=order)
    return [entry(who, managed.fields.encode(), managed.api_version, managed.time) for who, managed in listed]


def entry(who: Owner, fields: Object, version: str, time: str | None) -> Object:
    """One entry of ``managedFields``."""
    made: Object = {
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": who.manager,
        "operation": who.operation,
    }
    if who.subresource:
        made["subresource"] = who.subresource
    if time:
        made["time"] = time
    return made


def cap(managers: Managers) -> None:
    """Fold the oldest updaters into one per version, so that their number stays bounded."""
    if len(managers) <= MAX_UPDATERS:
        return
    updaters = sorted(
        (who for who in managers if who.operation == UPDATE), key=lambda who: (managers[who].time or "", str(who))
    )
    excess = len(updaters) - MAX_UPDATERS
    firsts: dict[str, Owner] = {}
    for who in updaters:
        if excess <= 0:
            return
        version = managers[who].api_version
        bucket = Owner(UPDATE, _ANCIENT, version)
        if version not in firsts:
            firsts[version] = who
            continue
        if bucket not in managers:
            managers[bucket] = managers.pop(firsts[version])
        gone = managers.pop(who) if who != bucket else managers[bucket]
        managers[bucket] = Managed(gone.fields.union(managers[bucket].fields), version, gone.time)
        excess -= 1
