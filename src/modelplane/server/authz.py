"""Who may do what: RBAC over the stored roles and bindings.

Members of ``system:masters`` pass. A role is compiled once per revision, and what a user was allowed is remembered until any role
or binding changes: a check costs a microsecond or less, and a changed binding counts at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from modelplane.errors import Refusal
from modelplane.server import refusals
from modelplane.server.objects import labels_of
from modelplane.server.request import Target, User
from modelplane.server.store import Entry, Key, Store

GROUP: Final = "rbac.authorization.k8s.io"
MASTERS: Final = "system:masters"
KEPT: Final = 4096
"""So much that was allowed is remembered."""
T = TypeVar("T")


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One PolicyRule."""

    verbs: list[str] = []
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    non_resource_urls: list[str] = msgspec.field(default_factory=list, name="nonResourceURLs")


class _LabelSelector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None


class _Aggregation(msgspec.Struct, rename="camel"):
    cluster_role_selectors: list[_LabelSelector] | None = None


class _Role(msgspec.Struct, rename="camel"):
    rules: list[Rule] | None = None
    aggregation_rule: _Aggregation | None = None


class _Subject(msgspec.Struct, rename="camel"):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _RoleRef(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _BindingName(msgspec.Struct):
    name: str = ""


class _Binding(msgspec.Struct, rename="camel"):
    metadata: _BindingName
    role_ref: _RoleRef
    subjects: list[_Subject] | None = None


class Attributes(msgspec.Struct, frozen=True):
    """What is asked: a verb on a resource, or on a path when ``resource`` is empty."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def of(cls, user: User, target: Target) -> Attributes:
        return cls(
            user=user,
            verb=target.verb,
            group=target.group,
            version=target.version,
            resource=target.resource,
            subresource=target.subresource,
            namespace=target.namespace,
            name=target.name,
            path=target.path,
        )


class Authorizer:
    """Answers questions about the bindings of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._permitted: set[tuple[str, tuple[str, ...], Target]] = set()
        """What was allowed, by name and groups of a user."""
        for resource in ("clusterrolebindings", "clusterroles", "rolebindings", "roles"):
            store.listen(f"{resource}.{GROUP}", lambda event: self._permitted.clear())

    def permits(self, user: User, target: Target) -> bool:
        """Whether a user may do what a request is about. It is remembered, since most do the same again."""
        asked = user.name, user.groups, target
        if asked in self._permitted:
            return True
        if not self.allowed(Attributes.of(user, target))[0]:
            return False
        if len(self._permitted) >= KEPT:
            self._permitted.clear()
        self._permitted.add(asked)
        return True

    def allowed(self, ask: Attributes) -> tuple[bool, str]:
        """Whether, and why: the binding that allows it. Nothing is ever denied, only not allowed."""
        if MASTERS in ask.user.groups:
            return True, ""
        for rules, why in self._grants(ask.user, ask.namespace):
            for rule in rules:
                if covers(rule, ask):
                    return True, why
        return False, ""

    def rules(self, user: User, namespace: str) -> list[Rule]:
        """Every rule that holds for a user in a namespace."""
        return [rule for rules, _ in self._grants(user, namespace) for rule in rules]

    def _grants(self, user: User, namespace: str) -> Iterator[tuple[list[Rule], str]]:
        for entry in self._store.scan(f"clusterrolebindings.{GROUP}"):
            binding = _binding(entry)
            if (subject := _matching(binding, user, "")) is not None:
                why = f'RBAC: allowed by ClusterRoleBinding "{binding.metadata.name}" of {_ref(binding)} to {_name(subject)}'
                yield self._role_rules("ClusterRole", "", binding.role_ref.name), why
        if not namespace:
            return
        for entry in self._store.scan(f"rolebindings.{GROUP}", namespace):
            binding = _binding(entry)
            if (subject := _matching(binding, user, namespace)) is not None:
                named = f"{binding.metadata.name}/{namespace}"
                why = f'RBAC: allowed by RoleBinding "{named}" of {_ref(binding)} to {_name(subject)}'
                yield self._role_rules(binding.role_ref.kind, namespace, binding.role_ref.name), why

    def role_rules(self, kind: str, namespace: str, name: str) -> list[Rule]:
        """The rules of a stored Role or ClusterRole; none when it does not exist."""
        return self._role_rules(kind, namespace, name)

    def _role_rules(self, kind: str, namespace: str, name: str) -> list[Rule]:
        key = (
            Key(f"clusterroles.{GROUP}", "", name) if kind == "ClusterRole" else Key(f"roles.{GROUP}", namespace, name)
        )
        entry = self._store.get(key)
        if entry is None:
            return []
        role = _role(entry)
        return [*(role.rules or ()), *self._aggregated(role.aggregation_rule)]

    def _aggregated(self, aggregation: _Aggregation | None) -> Iterator[Rule]:
        """The rules of the cluster roles that an aggregating one chooses by label."""
        wanted = [
            selector.match_labels or {} for selector in (aggregation and aggregation.cluster_role_selectors) or ()
        ]
        if not wanted:
            return
        for entry in self._store.scan(f"clusterroles.{GROUP}"):
            labels = labels_of(entry)
            if any(labels.items() >= each.items() for each in wanted):
                yield from _role(entry).rules or ()


def _role(entry: Entry) -> _Role:
    memo = _MEMO.get(entry)
    return memo if isinstance(memo, _Role) else _MEMO.put(entry, msgspec.json.decode(entry.body, type=_Role))


class _Memo:
    """Compiled roles and bindings by stored entry, bounded by dropping everything when many are outdated."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Entry, object]] = {}

    def get(self, entry: Entry) -> object:
        kept = self._kept.get(id(entry))
        return kept[1] if kept is not None and kept[0] is entry else None

    def put(self, entry: Entry, value: T) -> T:
        if len(self._kept) > 2048:
            self._kept.clear()
        self._kept[id(entry)] = (entry, value)
        return value


_MEMO: Final = _Memo()


def _binding(entry: Entry) -> _Binding:
    memo = _MEMO.get(entry)
    if not isinstance(memo, _Binding):
        memo = _MEMO.put(entry, msgspec.json.decode(entry.body, type=_Binding))
    return memo


def _matching(binding: _Binding, user: User, namespace: str) -> _Subject | None:
    for subject in binding.subjects or ():
        match subject.kind:
            case "User":
                found = user.name == subject.name
            case "Group":
                found = subject.name in user.groups
            case _:
                owner = subject.namespace or namespace
                found = user.name == f"system:serviceaccount:{owner}:{subject.name}"
        if found:
            return subject
    return None


def _ref(binding: _Binding) -> str:
    return f'{binding.role_ref.kind} "{binding.role_ref.name}"'


def _name(subject: _Subject) -> str:
    if subject.kind == "ServiceAccount":
        return f'ServiceAccount "{subject.name}/{subject.namespace}"'
    return f'{subject.kind} "{subject.name}"'


def covers(rule: Rule, ask: Attributes) -> bool:
    """Whether a rule allows what is asked, whoever asks."""
    if ask.verb not in rule.verbs and "*" not in rule.verbs:
        return False
    if not ask.resource:
        return any(_path_matches(pattern, ask.path) for pattern in rule.non_resource_urls)
    if ask.group not in rule.api_groups and "*" not in rule.api_groups:
        return False
    wanted = f"{ask.resource}/{ask.subresource}" if ask.subresource else ask.resource
    if not (
        wanted in rule.resources
        or "*" in rule.resources
        or (ask.subresource and f"*/{ask.subresource}" in rule.resources)
    ):
        return False
    return not rule.resource_names or ask.name in rule.resource_names


def _path_matches(pattern: str, path: str) -> bool:
    return pattern == "*" or pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def refusal(ask: Attributes) -> Refusal:
    """The 403 that names who may not do what."""
    if not ask.resource:
        why = f'User "{ask.user.name}" cannot {ask.verb} path "{ask.path}"'
        return refusals.forbidden("", "", "", why)
    resource = f"{ask.resource}/{ask.subresource}" if ask.subresource else ask.resource
    where = f'in the namespace "{ask.namespace}"' if ask.namespace else "at the cluster scope"
    why = f'User "{ask.user.name}" cannot {ask.verb} resource "{resource}" in API group "{ask.group}" {where}'
    return refusals.forbidden(ask.resource, ask.group, ask.name, why)
