"""What a platform team would have done by hand before the control plane starts: namespaces, identities, kubeconfig Secrets.

Everything is applied, so that a second start changes nothing but what is out of date.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import yaml

from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.kube.client import Client
from modelplane.local.fleet_spec import Cluster, Fleet
from modelplane.server.tls import ensure_certificates

FIELD_MANAGER: Final = "modelplane-up"
OPERATOR: Final = "modelplane-operator"
TOKEN_SECONDS: Final = 365 * 24 * 3600
"""The operator's token is made anew at every start, so it only has to outlive one."""


RECORDER: Final = "modelplane-local-charts"
RECORDING: Final[tuple[Object, ...]] = (
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": RECORDER},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "patch", "delete"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": RECORDER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": RECORDER},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": SYSTEM_NAMESPACE}],
    },
)
"""What a local operator may beside the rules of every other: it records charts as Helm would, in Secrets."""


async def namespaces(client: Client, fleet: Fleet) -> None:
    for name in (SYSTEM_NAMESPACE, *fleet.namespaces):
        await client.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, field_manager=FIELD_MANAGER
        )


async def operator_identity(client: Client, admin: Path, rules: Path, into: Path) -> None:
    """Apply the operator's service account and rules, with those of the recorder of charts, and write a kubeconfig that holds a
    token of it and nothing more."""
    for document in (*yaml.safe_load_all(rules.read_text()), *RECORDING):
        if document:
            await client.apply(document, field_manager=FIELD_MANAGER)
    answer = await client.request(
        "POST",
        f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{OPERATOR}/token",
        body={
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        },
    )
    config = yaml.safe_load(admin.read_text())
    config["users"] = [{"name": OPERATOR, "user": {"token": answer["status"]["token"]}}]
    for context in config["contexts"]:
        context["context"]["user"] = OPERATOR
    write_private(into, yaml.safe_dump(config))


async def kubeconfig_secret(client: Client, cluster: Cluster, kubeconfig: Path) -> None:
    """The Secret by which an InferenceCluster of source Existing is reached."""
    data = base64.b64encode(kubeconfig.read_bytes()).decode()
    await client.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": cluster.secret.name, "namespace": SYSTEM_NAMESPACE},
            "type": "Opaque",
            "data": {cluster.secret.key: data},
        },
        field_manager=FIELD_MANAGER,
    )


def webhook_certificate(folder: Path) -> bytes:
    """Make ``tls.crt`` and ``tls.key`` in the folder, once; the certificate authority that API servers are to trust."""
    ensure_certificates(folder, [])
    for ours, theirs in (("serving.crt", "tls.crt"), ("serving.key", "tls.key")):
        write_private(folder / theirs, (folder / ours).read_text())
    return (folder / "ca.crt").read_bytes()


async def webhook(client: Client, url: str, authority: bytes) -> None:
    """Have the API server ask the operator, as the chart does."""
    await client.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": OPERATOR},
            "webhooks": [
                {
                    "name": "validate.modelplane.ai",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "timeoutSeconds": 5,
                    "clientConfig": {"url": f"{url}/validate", "caBundle": base64.b64encode(authority).decode()},
                    "rules": [
                        {
                            "apiGroups": ["modelplane.ai"],
                            "apiVersions": ["v1alpha1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["modeldeployments", "modelreplicas", "inferenceclasses"],
                        }
                    ],
                }
            ],
        },
        field_manager=FIELD_MANAGER,
    )


def merged_kubeconfig(named: Iterable[tuple[str, Path]]) -> str:
    """One kubeconfig with a context per (name, kubeconfig); the first is the current one."""
    merged: Object = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, path in named:
        config = yaml.safe_load(path.read_text())
        merged["clusters"].append({"name": name, "cluster": config["clusters"][0]["cluster"]})
        merged["users"].append({"name": name, "user": config["users"][0]["user"]})
        merged["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
        merged.setdefault("current-context", name)
    return yaml.safe_dump(merged, sort_keys=False)


def write_private(path: Path, text: str) -> None:
    """A credential: readable by its owner alone, replaced in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(path.name + ".tmp")
    scratch.touch(mode=0o600)
    scratch.chmod(0o600)
    scratch.write_text(text)
    scratch.replace(path)
