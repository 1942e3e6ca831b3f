"""The live entries of one resource in memory, found by name and listed in order.

Names are kept by namespace, because lists and watches ask for one. The order of names is made when somebody lists, and from the
last one: most of it is sorted already, and a list of ten thousand objects costs what its bytes cost.
"""

from __future__ import annotations

from modelplane.server.entries import Entry, Key


class Shelf:
    """Entries by namespace and name."""

    __slots__ = ("_folders",)

    def __init__(self) -> None:
        self._folders: dict[str, _Folder] = {}

    def __len__(self) -> int:
        return sum(len(folder.entries) for folder in self._folders.values())

    def get(self, key: Key) -> Entry | None:
        folder = self._folders.get(key.namespace)
        return None if folder is None else folder.entries.get(key.name)

    def put(self, entry: Entry) -> Entry | None:
        """Keep an entry instead of the one that had its key, which is given back."""
        folder = self._folders.get(entry.key.namespace)
        if folder is None:
            folder = self._folders[entry.key.namespace] = _Folder()
        return folder.put(entry)

    def take(self, key: Key) -> Entry | None:
        """Remove an entry; it is given back if it was there."""
        folder = self._folders.get(key.namespace)
        if folder is None:
            return None
        gone = folder.take(key.name)
        if not folder.entries:
            del self._folders[key.namespace]
        return gone

    def all(self) -> list[Entry]:
        """Every entry, ordered by namespace and name."""
        return [entry for namespace in sorted(self._folders) for entry in self._folders[namespace].listed()]

    def within(self, namespace: str) -> list[Entry]:
        """The entries of one namespace, ordered by name."""
        folder = self._folders.get(namespace)
        return [] if folder is None else folder.listed()


class _Folder:
    __slots__ = ("_added", "_order", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._order: list[str] = []
        """Names in order; some may be gone."""
        self._added: list[str] = []

    def put(self, entry: Entry) -> Entry | None:
        name = entry.key.name
        previous = self.entries.get(name)
        self.entries[name] = entry
        if previous is None:
            self._added.append(name)
        return previous

    def take(self, name: str) -> Entry | None:
        return self.entries.pop(name, None)

    def listed(self) -> list[Entry]:
        entries = self.entries
        if self._added or len(self._order) != len(entries):
            # A name that went and came back is in both lists.
            self._order = sorted({name: None for name in (*self._order, *self._added) if name in entries})
            self._added = []
        return [entries[name] for name in self._order]
