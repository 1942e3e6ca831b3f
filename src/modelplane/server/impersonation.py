"""`kubectl --as`: acting as somebody else, for who may `impersonate` them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from modelplane.server import authz, refusals
from modelplane.server.authn import service_account_user
from modelplane.server.authz import Attributes, Authorizer
from modelplane.server.request import User

_ACCOUNT = "system:serviceaccount:"


def impersonated(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
    """The user that the headers ask for, or the same one when they do not. Raises a 403 or a 400."""
    asked = [(name, value) for name, value in headers if name.startswith("impersonate-")]
    if not asked:
        return user
    name = next((value for header, value in asked if header == "impersonate-user"), "")
    groups = [value for header, value in asked if header == "impersonate-group"]
    uid = next((value for header, value in asked if header == "impersonate-uid"), "")
    extra: dict[str, list[str]] = {}
    for header, value in asked:
        if header.startswith("impersonate-extra-"):
            extra.setdefault(header.removeprefix("impersonate-extra-"), []).append(value)
    if not name:
        named = ", ".join(f'"{each}"' for each in groups)
        shown = f"[]string{{{named}}}" if groups else "[]string(nil)"
        info = f'&user.DefaultInfo{{Name:"", UID:"{uid}", Groups:{shown}, Extra:map[string][]string(nil)}}'
        raise refusals.bad_request(f"requested {info} without impersonating a user name")
    _require(user, name, groups, uid, extra, authorizer)
    if name.startswith(_ACCOUNT) and name.count(":") == 3:
        namespace, _, account_name = name.removeprefix(_ACCOUNT).partition(":")
        account = service_account_user(namespace, account_name, uid)
        return User(name, tuple(groups) if groups else account.groups, uid, extra)
    known = "system:unauthenticated" if name == "system:anonymous" else "system:authenticated"
    return User(name, (*groups, *(() if known in groups else (known,))), uid, extra)


def _require(
    user: User, name: str, groups: list[str], uid: str, extra: Mapping[str, list[str]], authorizer: Authorizer
) -> None:
    def ask(resource: str, wanted: str, *, group: str = "", namespace: str = "", subresource: str = "") -> Attributes:
        return Attributes(
            user=user,
            verb="impersonate",
            group=group,
            version="v1",
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            name=wanted,
        )

    if name.startswith(_ACCOUNT) and name.count(":") == 3:
        namespace, account = name.removeprefix(_ACCOUNT).split(":")
        needed = [ask("serviceaccounts", account, namespace=namespace)]
    else:
        needed = [ask("users", name)]
    needed += [ask("groups", each) for each in groups]
    if uid:
        needed.append(ask("uids", uid, group="authentication.k8s.io"))
    for key, values in extra.items():
        needed += [ask("userextras", each, group="authentication.k8s.io", subresource=key) for each in values]
    for attributes in needed:
        if not authorizer.allowed(attributes)[0]:
            raise authz.refusal(attributes)
