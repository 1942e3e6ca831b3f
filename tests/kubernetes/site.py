"""A real control cluster with the chart installed, two simulated inference clusters, and what people do there."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

import modelplane.api
from modelplane.api.meta import Object, condition_of
from modelplane.kube import Client, Kubeconfig
from modelplane.local.kubernetes import ControlPlane
from tests.kubernetes.endpoint import Endpoint, until
from tests.kubernetes.installed import (
    CHART,
    ROOT,
    SYSTEM,
    Kubelet,
    Running,
    ServiceProxy,
    audit_flags,
    helm,
)
from tests.kubernetes.plane import running_plane

CLUSTERS = ("gpu-eu-west", "gpu-us-east")
FOREIGN = ("gateway-api", "metallb")
EXAMPLE = ROOT / "examples" / "two-regions"
OURS = "/apis/modelplane.ai/v1alpha1"
STACKS = f"/apis/infrastructure.modelplane.ai/v1alpha1/namespaces/{SYSTEM}/servingstacks"
TEAM = f"{OURS}/namespaces/ml-team"
JSON = {"Content-Type": "application/json"}


@dataclass
class Site:
    """A control cluster with the chart installed, and two simulated inference clusters."""

    plane: ControlPlane
    real: Endpoint
    kubelet: Kubelet
    audit: Path
    helm: Path
    clusters: dict[str, Path] = field(default_factory=dict)

    def get(self, path: str) -> Any:
        """The object, or None."""
        answer = self.real.send("GET", path)
        return answer.body if answer.status == 200 else None

    def items(self, path: str) -> list[Object]:
        found = self.get(path)
        return found["items"] if found else []

    def apply(self, document: Object, expect: int = 0) -> Any:
        """Server-side apply by a person."""
        plural = {"InferenceClass": "inferenceclasses"}.get(document["kind"], document["kind"].lower() + "s")
        where = document["metadata"].get("namespace")
        group = f"/apis/{document['apiVersion']}" if "/" in document["apiVersion"] else f"/api/{document['apiVersion']}"
        path = f"{group}{f'/namespaces/{where}' if where else ''}/{plural}/{document['metadata']['name']}"
        answer = self.real.send(
            "PATCH",
            f"{path}?fieldManager=a-person&force=true&fieldValidation=Strict",
            json.dumps(document).encode(),
            {"Content-Type": "application/apply-patch+yaml"},
        )
        assert answer.status == expect if expect else answer.status < 300, answer.body["message"]
        return answer.body

    def put(self, path: str, body: Object) -> None:
        answer = self.real.send("PUT", path, json.dumps(body).encode(), JSON)
        assert answer.status == 200, answer.body

    def delete(self, path: str) -> None:
        answer = self.real.send("DELETE", path)
        assert answer.status in (200, 202), answer.body

    def pod(self, running: Running) -> Object:
        return next(pod for pod in self.kubelet.pods() if pod["metadata"]["name"] == running.pod)

    def webhook(self) -> tuple[str, int] | None:
        """Where an operator serves it."""
        running = (one for one in reversed(self.kubelet.running) if one.process.poll() is None)
        return next(((one.address, 9443) for one in running), None)

    def leader(self) -> Running | None:
        return next((one for one in self.kubelet.running if one.process.poll() is None and one.leading), None)


def documents(name: str) -> list[Object]:
    return list(yaml.safe_load_all((EXAMPLE / f"{name}.yaml").read_text()))


def true(obj: Object | None, kind: str) -> bool:
    condition = condition_of(obj, kind) if obj else None
    return condition is not None and condition.status == "True"


def ready(site: Site, *paths: str, within: float = 90.0) -> None:
    """Wait until the objects are Ready; fails with what they say, and the stacks."""
    deadline = time.monotonic() + within
    for path in paths:
        while not true(site.get(path), "Ready"):
            if time.monotonic() > deadline:
                said = [(site.get(path) or {}).get("status"), *(one.get("status") for one in site.items(STACKS))]
                pytest.fail(
                    f"{path} is not Ready: {json.dumps([(one or {}).get('conditions') for one in said], indent=1)}"
                )
            time.sleep(0.05)


@contextmanager
def running_site(binaries: Path, helm_at: Path, root: Path) -> Iterator[Site]:
    """The chart is installed, and both pods of its Deployment run."""
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> None:
            log = stack.enter_context((root / f"{name}.log").open("wb"))
            process = subprocess.Popen([sys.executable, "-m", "modelplane", *arguments], stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        kubeconfigs = {name: root / name / "admin.kubeconfig" for name in CLUSTERS}
        for name in CLUSTERS:
            start(name, "cluster", "--data-dir", str(root / name), "--name", name)
        audit = root / "audit"
        flags = {"apiserver": audit_flags(audit)}
        plane = stack.enter_context(running_plane(binaries, root / "control", "controller_manager", flags=flags))
        real = Endpoint(plane.kubeconfig, {})
        stack.callback(real.close)
        for name in FOREIGN:
            for definition in yaml.safe_load_all(
                (Path(modelplane.api.__file__).parent / f"foreign/{name}.yaml").read_text()
            ):
                path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                assert real.send("POST", path, json.dumps(definition).encode(), JSON).status == 201
        helm(
            helm_at, plane.kubeconfig, "install", "modelplane", str(CHART), "--namespace", SYSTEM, "--create-namespace"
        )
        server = Kubeconfig.load(plane.kubeconfig).server.removeprefix("https://").split(":")
        kubelet = Kubelet(real, (server[0], int(server[1])), root / "pods")
        stack.callback(kubelet.end)
        found = Site(plane, real, kubelet, audit, helm_at, kubeconfigs)
        found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-team"}})
        until(lambda: len(kubelet.pods()) == 2)
        until(lambda: all(path.exists() for path in kubeconfigs.values()))
        gateway = [f"--cluster={name}={path}" for name, path in kubeconfigs.items()]
        start("gateway", "gateway", "--data-dir", str(root / "gateway"), "--control", str(plane.kubeconfig),
              "--address", "10.244.0.1", *gateway)  # fmt: skip
        first, second = kubelet.pods()
        kubelet.run(first)
        until(found.leader)
        kubelet.run(second)
        service = found.get(f"/api/v1/namespaces/{SYSTEM}/services/modelplane-operator")
        proxy = ServiceProxy((service["spec"]["clusterIP"], 443), found.webhook)
        stack.callback(proxy.shutdown)
        yield found


def register(site: Site) -> None:
    """What a platform team does: a Secret per cluster, and the example's objects. The kubeconfigs have the rights that the page
    says and no others."""
    for name, kubeconfig in site.clusters.items():
        data = base64.b64encode(limited(kubeconfig).encode()).decode()
        metadata = {"name": f"{name.removeprefix('gpu-')}-kubeconfig", "namespace": SYSTEM}
        site.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"kubeconfig": data}})
    for name in ("10-inference-gateway", "20-inference-class", "30-inference-clusters"):
        for document in documents(name):
            site.apply(document)


def limited(admin: Path) -> str:
    """A kubeconfig of the account of rbac-cluster.yaml, which is applied first."""
    config = yaml.safe_load(admin.read_text())
    token = asyncio.run(_token(admin))
    user = config["contexts"][0]["context"]["user"]
    return yaml.safe_dump({**config, "users": [{"name": user, "user": {"token": token}}]})


async def _token(admin: Path) -> str:
    async with Client(Kubeconfig.load(admin)) as client:
        for document in yaml.safe_load_all((ROOT / "src/modelplane/operator/rbac-cluster.yaml").read_text()):
            await client.apply(document)
        path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/modelplane/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 7200},
        }
        return str((await client.request("POST", path, body=request))["status"]["token"])


def asked(site: Site) -> dict[str, str]:
    """The commands that events ask for, by release and place."""
    events = [*site.items(f"/api/v1/namespaces/{SYSTEM}/events"), *site.items("/api/v1/namespaces/default/events")]
    lines = [event["message"] for event in events if event["reason"] == "ChartMissing"]
    return {line: line.partition(": ")[2] for line in lines}


def install_charts(site: Site, folder: Path) -> None:
    """Run each command as it is said, with an empty chart of that name and version in the place of the real one."""

    def run(line: str) -> None:
        where = line.partition(": ")[0].removeprefix("run on ")
        words = shlex.split(asked_for[line])
        name = words[4].rpartition("/")[2]
        chart = folder / where.replace(" ", "-") / name
        chart.mkdir(parents=True)
        version = words[words.index("--version") + 1]
        (chart / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": name, "version": version}))
        if "--repo" in words:
            del words[words.index("--repo") : words.index("--repo") + 2]
        kubeconfig = site.clusters.get(where, site.plane.kubeconfig)
        helm(site.helm, kubeconfig, *words[1:4], str(chart), *words[5:])

    asked_for = until(lambda: found if len(found := asked(site)) == 18 else None)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, asked_for))


GROUPS = {
    "": "/api/v1",
    "discovery.k8s.io": "/apis/discovery.k8s.io/v1",
    "gateway.networking.k8s.io": "/apis/gateway.networking.k8s.io/v1",
    "metallb.io": "/apis/metallb.io/v1beta1",
    "modelplane.ai": OURS,
    "infrastructure.modelplane.ai": "/apis/infrastructure.modelplane.ai/v1alpha1",
}
MADE = (
    *((group, plural) for group, plural in (("", "services"), ("discovery.k8s.io", "endpointslices"))),
    *(("gateway.networking.k8s.io", plural) for plural in ("gateways", "gatewayclasses", "httproutes")),
    *(("metallb.io", plural) for plural in ("ipaddresspools", "l2advertisements")),
    *(("modelplane.ai", plural) for plural in ("modelreplicas", "modelendpoints")),
    ("infrastructure.modelplane.ai", "servingstacks"),
)
"""What the operator makes on the control cluster, namespaces apart."""


def made(site: Site) -> dict[str, Object]:
    """Everything there that belongs to an object of ours, by place and UID."""
    found = {}
    for group, plural in MADE:
        for obj in site.items(f"{GROUPS[group]}/{plural}"):
            owners = obj["metadata"].get("ownerReferences") or ()
            if any(owner["apiVersion"].endswith("modelplane.ai/v1alpha1") for owner in owners):
                metadata = obj["metadata"]
                found[f"{plural}.{group} {metadata.get('namespace', '')}/{metadata['name']} {metadata['uid']}"] = obj
    return found


def deploy(site: Site, replicas: int = 2) -> None:
    """The example's deployment, whose container reads a Secret and a ConfigMap, and its service."""
    for kind, data in (("Secret", base64.b64encode(b"s").decode()), ("ConfigMap", "c")):
        metadata = {"name": "settings", "namespace": "ml-team"}
        site.apply({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"key": data}})
    [deployment] = documents("40-model-deployment")
    deployment["spec"]["replicas"] = replicas
    [member] = deployment["spec"]["template"]["spec"]["engines"][0]["members"]
    [container] = member["template"]["spec"]["containers"]
    container["env"] = [
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "settings", "key": "key"}}},
        {"name": "SETTING", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "key"}}},
    ]
    site.apply(deployment)
    for document in documents("50-model-service"):
        site.apply(document)


def external(name: str, url: str = "http://192.0.2.7/v1") -> Object:
    """An endpoint outside of the fleet."""
    metadata = {"name": name, "namespace": "ml-team"}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelEndpoint", "metadata": metadata, "spec": {"url": url}}


def slice_of(site: Site, endpoint: str) -> str:
    """The address type of the slice of an endpoint, empty while there is none."""
    for one in site.items("/apis/discovery.k8s.io/v1/namespaces/ml-team/endpointslices"):
        if one["metadata"]["ownerReferences"][0]["name"] == endpoint:
            return str(one["addressType"])
    return ""


def nowhere(cache: str) -> Object:
    """A deployment for which there is no cluster."""
    [deployment] = documents("40-model-deployment")
    deployment["metadata"]["name"] = "nowhere"
    deployment["spec"]["template"]["spec"]["clusterSelector"] = {"matchLabels": {"modelplane.ai/region": "nowhere"}}
    deployment["spec"]["template"]["spec"]["modelCacheRef"] = {"name": cache}
    return deployment


def said(site: Site, path: str, kind: str) -> str:
    """The message of a condition of an object of the team."""
    condition = condition_of(site.get(f"{TEAM}/{path}") or {}, kind)
    return condition.message if condition else ""


def answered(site: Site) -> str:
    """What the front door answers."""
    address = site.get(f"{TEAM}/modelservices/mock")["status"]["address"]
    host = address.removeprefix("http://").partition("/")[0]
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request("GET", f"/{address.removeprefix('http://').partition('/')[2].rstrip('/')}/v1/models")
        return connection.getresponse().read().decode()
    finally:
        connection.close()
