"""Tables of access rules, priorities, disruption budgets and webhooks."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.server.columns import NAME, name_of
from modelplane.server.tables.cells import (
    UNSET,
    Plain,
    Table,
    column,
    created_at,
    number,
    selector,
    spec,
    status,
    table,
    untimed,
    wide,
)

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


def _subjects(kind: str) -> Plain:
    def cell(obj: Object) -> str:
        found = [s for s in obj.get("subjects") or () if s.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in found)
        return ", ".join(str(s.get("name", "")) for s in found)

    return cell


def _role(obj: Object) -> str:
    role = obj.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


_BINDING = table(
    column("Role", _role),
    wide=(
        wide("Users", _subjects("User")),
        wide("Groups", _subjects("Group")),
        wide("ServiceAccounts", _subjects("ServiceAccount")),
    ),
)
_NAMED: Table = {NAME: untimed(name_of), **dict([created_at()])}
_WEBHOOKS = table(number("Webhooks", lambda obj: len(obj.get("webhooks") or ())))


def _param_kind(kind: Object | None) -> str:
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def _param(reference: Object | None) -> str:
    if not reference:
        return UNSET
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return selector(reference.get("selector"))


def _bound(field: str) -> Plain:
    return lambda obj: str(spec(obj)[field]) if spec(obj).get(field) is not None else "N/A"


TABLES: dict[tuple[str, str], Table] = {
    (_RBAC, "Role"): _NAMED,
    (_RBAC, "ClusterRole"): _NAMED,
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    (_ADMISSION, "MutatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "ValidatingAdmissionPolicy"): table(
        number("Validations", lambda obj: len(spec(obj).get("validations") or ())),
        column("ParamKind", lambda obj: _param_kind(spec(obj).get("paramKind"))),
    ),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): table(
        column("PolicyName", lambda obj: spec(obj).get("policyName", "")),
        column("ParamRef", lambda obj: _param(spec(obj).get("paramRef"))),
    ),
    ("scheduling.k8s.io", "PriorityClass"): table(
        number("Value", lambda obj: obj.get("value")),
        column("Global-Default", lambda obj: bool(obj.get("globalDefault")), "boolean"),
        wide=(column("PreemptionPolicy", lambda obj: obj.get("preemptionPolicy", "")),),
    ),
    ("policy", "PodDisruptionBudget"): table(
        column("Min Available", _bound("minAvailable")),
        column("Max Unavailable", _bound("maxUnavailable")),
        number("Allowed Disruptions", lambda obj: status(obj).get("disruptionsAllowed")),
    ),
}
