"""Nobody hands out more than they have: the check on writes of roles and bindings.

A role may be written by who holds every permission in it, or may `escalate` it; a binding by who holds what its role
grants, or may `bind` that role.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import msgspec

from modelplane.api.meta import Object
from modelplane.server.authz import GROUP, MASTERS, Attributes, Rule, covers
from modelplane.server.call import Call, storage
from modelplane.server.request import ANONYMOUS

_ROLES: Final = (f"roles.{GROUP}", f"clusterroles.{GROUP}")
_BINDINGS: Final = (f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}")
_GUARDED: Final = frozenset({*_ROLES, *_BINDINGS})


def check(call: Call, new: Object, old: Object | None) -> None:
    """Raises a 403 that lists what the user does not hold."""
    resource = storage(call.type)
    if resource not in _GUARDED or MASTERS in call.request.user.groups:
        return
    if resource in _ROLES:
        if old is not None and old.get("rules") == new.get("rules"):
            return
        rules = msgspec.convert(new.get("rules") or [], list[Rule])
        verb, named = "escalate", (call.type.plural, new["metadata"].get("name", ""))
    else:
        if old is not None and (old.get("subjects"), old["roleRef"]) == (new.get("subjects"), new["roleRef"]):
            return
        ref = new["roleRef"]
        rules = call.backend.authorizer.role_rules(ref["kind"], call.namespace, ref["name"])
        verb, named = "bind", ("clusterroles" if ref["kind"] == "ClusterRole" else "roles", ref["name"])
    user = call.request.user
    ask = Attributes(user=user, verb=verb, group=GROUP, resource=named[0], name=named[1], namespace=call.namespace)
    if call.backend.authorizer.allowed(ask)[0]:
        return
    held = call.backend.authorizer.rules(user, call.namespace)
    missing = [single for rule in rules for single in _single(rule) if not any(_holds(h, single) for h in held)]
    if missing:
        groups = " ".join(f'"{group}"' for group in user.groups)
        listed = "\n".join(_shown(rule) for rule in missing)
        why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{listed}'
        raise call.forbidden(new["metadata"].get("name", ""), why)


def _single(rule: Rule) -> list[Rule]:
    """A rule as rules of one verb on one thing."""
    of_paths = [
        Rule(verbs=[verb], non_resource_urls=[url]) for verb, url in product(rule.verbs, rule.non_resource_urls)
    ]
    of_resources = [
        Rule(verbs=[verb], api_groups=[group], resources=[resource], resource_names=[name] if name else [])
        for verb, group, resource, name in product(
            rule.verbs, rule.api_groups, rule.resources, rule.resource_names or [""]
        )
    ]
    return of_paths + of_resources


def _holds(held: Rule, wanted: Rule) -> bool:
    """Whether one rule grants all of a single one; a star in the wanted rule is only in a star."""
    if wanted.non_resource_urls:
        return covers(held, Attributes(user=ANONYMOUS, verb=wanted.verbs[0], path=wanted.non_resource_urls[0]))
    if held.resource_names and not wanted.resource_names:
        return False
    resource, _, subresource = wanted.resources[0].partition("/")
    ask = Attributes(
        user=ANONYMOUS,
        verb=wanted.verbs[0],
        group=wanted.api_groups[0],
        resource=resource,
        subresource=subresource,
        name=wanted.resource_names[0] if wanted.resource_names else "",
    )
    return covers(held, ask)


def _shown(rule: Rule) -> str:
    def listed(values: list[str]) -> str:
        return "[" + " ".join(f'"{value}"' for value in values) + "]"

    if rule.non_resource_urls:
        return f"{{NonResourceURLs:{listed(rule.non_resource_urls)}, Verbs:{listed(rule.verbs)}}}"
    names = f", ResourceNames:{listed(rule.resource_names)}" if rule.resource_names else ""
    return f"{{APIGroups:{listed(rule.api_groups)}, Resources:{listed(rule.resources)}{names}, Verbs:{listed(rule.verbs)}}}"
