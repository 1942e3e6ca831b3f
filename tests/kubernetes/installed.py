"""The chart as it is used: installed by Helm on a real control plane, its Deployment's pods run as processes.

`Kubelet` is what runs them: from the Pod that real controllers and admission made of the template it takes arguments,
environment, volumes and the projected token, and starts the command in a mount namespace where they are at their paths, with
a root file system that is read-only. What is not a process here is the image.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from modelplane.api.meta import Object
from tests.kubernetes.endpoint import Endpoint

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts" / "modelplane"
SYSTEM: Final = "modelplane-system"
ACCOUNT: Final = f"system:serviceaccount:{SYSTEM}:modelplane-operator"
POLICY: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:modelplane-system"]
- level: None
"""
PODS: Final = f"/api/v1/namespaces/{SYSTEM}/pods"


def audit_flags(folder: Path) -> list[str]:
    """Arguments of an API server that writes down every request of the operator, and checks owner references as OpenShift does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.yaml").write_text(POLICY)
    return [
        f"--audit-policy-file={folder / 'policy.yaml'}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    ]


def audited(folder: Path) -> Iterator[Object]:
    """The requests so far."""
    for line in (folder / "audit.log").read_text().splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def helm(binary: Path, kubeconfig: Path, *arguments: str) -> str:
    """What Helm prints; fails with what it says."""
    done = _helm(binary, kubeconfig, *arguments)
    assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def refused_by_helm(binary: Path, kubeconfig: Path, *arguments: str) -> str:
    """Why it refuses."""
    done = _helm(binary, kubeconfig, *arguments)
    assert done.returncode != 0, done.stdout
    return done.stderr


def _helm(binary: Path, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = kubeconfig.parent / "helm"
    environment = {**os.environ, "HOME": str(home), "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(
        [str(binary), *arguments], capture_output=True, text=True, timeout=120, check=False, env=environment
    )


class Running:
    """One operator process of one pod."""

    def __init__(self, pod: Object, argv: list[str], environment: dict[str, str], log: Path, health: str) -> None:
        self.pod: str = pod["metadata"]["name"]
        self.log = log
        self._health = health
        self.address = health.partition(":")[0]
        with log.open("ab") as out:
            self.process = subprocess.Popen(argv, stdout=out, stderr=out, env=environment)

    def said(self, words: str) -> bool:
        return words in self.log.read_text()

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a path of the health port; (0, "") while nothing listens."""
        try:
            with urllib.request.urlopen(f"http://{self._health}{path}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    @property
    def leading(self) -> bool:
        return "\nmodelplane_leading 1\n" in self.get("/metrics")[1]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class ServiceProxy(socketserver.ThreadingTCPServer):
    """Connections to a Service's own address end at whichever operator runs, as kube-proxy arranges it."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], target: Callable[[], tuple[str, int] | None]) -> None:
        self.target = target
        subprocess.run(["ip", "route", "add", "local", f"{address[0]}/32", "dev", "lo"], check=True)
        super().__init__(address, _Connection)
        threading.Thread(target=self.serve_forever, name="service proxy", daemon=True).start()


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, ServiceProxy)
        target = self.server.target()
        if target is None:
            return
        with socket.create_connection(target, timeout=10) as other:
            back = threading.Thread(target=_pour, args=(other, self.request), daemon=True)
            back.start()
            _pour(self.request, other)
            back.join(10)


def _pour(source: socket.socket, into: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            into.sendall(data)
        into.shutdown(socket.SHUT_WR)


class Kubelet:
    """Runs pods of the operator. ``real`` is an administrator of the control cluster."""

    def __init__(self, real: Endpoint, server: tuple[str, int], folder: Path) -> None:
        self._real, self._server, self._folder = real, server, folder
        self._count = 0
        self.running: list[Running] = []

    def pods(self) -> list[Object]:
        """Those that the Deployment's ReplicaSet has made, oldest first."""
        answer = self._real.send("GET", f"{PODS}?labelSelector=app.kubernetes.io/name=modelplane-operator")
        return sorted(answer.body["items"], key=lambda pod: str(pod["metadata"]["name"]))

    def run(self, pod: Object) -> Running:
        """Start the pod's container, as a kubelet starts it again after an end."""
        self._count += 1
        [container] = pod["spec"]["containers"]
        name, address = pod["metadata"]["name"], f"10.244.240.{self._count}"
        folder = self._folder / f"{name}-{self._count}"
        folder.mkdir(parents=True)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOSTNAME": name,
            "KUBERNETES_SERVICE_HOST": self._server[0],
            "KUBERNETES_SERVICE_PORT": str(self._server[1]),
        }
        for variable in container.get("env", ()):
            assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
            environment[variable["name"]] = address
        arguments = list(container["args"])
        for variable, value in environment.items():
            arguments = [argument.replace(f"$({variable})", value) for argument in arguments]
        script = ["set -e", "mount --make-rprivate /"]
        etc = folder / "etc"
        shutil.copytree("/etc", etc, symlinks=True, ignore_dangling_symlinks=True)
        runtime = folder / "run"
        runtime.mkdir()
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        hidden = []
        for mount in container["volumeMounts"]:
            path = Path(os.path.realpath(mount["mountPath"]))
            volume = volumes[mount["name"]]
            if "emptyDir" in volume:
                # What is needed to run may itself be below it.
                if not any(Path(used).is_relative_to(path) for used in (ROOT, sys.prefix, self._folder)):
                    hidden.append(f"mount -t tmpfs -o size=16m tmpfs {path}")
                continue
            inside = (etc if path.is_relative_to("/etc") else runtime) / path.relative_to("/", *path.parts[1:2])
            self._fill(volume, pod, inside)
        script += [f"mount --bind {etc} /etc", f"mount --bind {runtime} /run", *hidden]
        script += ["mount -o remount,bind,ro /", 'exec "$@"']
        argv = ["unshare", "--mount", "sh", "-c", "; ".join(script), "sh", sys.executable, "-m", "modelplane"]
        port = next(p["containerPort"] for p in container["ports"] if p["name"] == "health")
        log = self._folder / f"{name}-{self._count}.log"
        self._status(pod, address)
        self.running.append(Running(pod, [*argv, *arguments], environment, log, f"{address}:{port}"))
        return self.running[-1]

    def _fill(self, volume: dict[str, Any], pod: Object, into: Path) -> None:
        into.mkdir(parents=True)
        if "secret" in volume:
            path = f"/api/v1/namespaces/{SYSTEM}/secrets/{volume['secret']['secretName']}"
            for key, value in self._real.send("GET", path).body["data"].items():
                (into / key).write_bytes(base64.b64decode(value))
            return
        for source in volume["projected"]["sources"]:
            [(kind, wanted)] = source.items()
            if kind == "serviceAccountToken":
                (into / wanted["path"]).write_text(self._token(pod, wanted["expirationSeconds"]))
            elif kind == "configMap":
                data = self._real.send("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/{wanted['name']}").body["data"]
                for item in wanted["items"]:
                    (into / item["path"]).write_text(data[item["key"]])
            else:
                for item in wanted["items"]:
                    assert item["fieldRef"]["fieldPath"] == "metadata.namespace"
                    (into / item["path"]).write_text(pod["metadata"]["namespace"])

    def _token(self, pod: Object, seconds: int) -> str:
        """Bound to the pod, so that the audit log tells pods apart."""
        metadata, account = pod["metadata"], pod["spec"]["serviceAccountName"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds, "boundObjectRef": bound},
        }
        answer = self._real.send(
            "POST",
            f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        assert answer.status == 201, answer.body
        return str(answer.body["status"]["token"])

    def _status(self, pod: Object, address: str) -> None:
        """What makes the Deployment available."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}
        answer = self._real.send(
            "PATCH",
            f"{PODS}/{pod['metadata']['name']}/status",
            json.dumps({"status": status}).encode(),
            {"Content-Type": "application/merge-patch+json"},
        )
        assert answer.status == 200, answer.body

    def end(self) -> None:
        for running in self.running:
            running.end()
