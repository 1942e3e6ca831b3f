"""Registered clusters: from an InferenceCluster and its kubeconfig Secret to a client, and whether it answers.

Reachability comes from two sides: streams that break say so at once, and a knock every two seconds finds a server that hangs or a
cluster of which nothing is watched yet. Rotated credentials are taken over without losing what was seen.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

import msgspec

from modelplane.api.meta import GROUP, GVK, SYSTEM_NAMESPACE, VERSION, Key, Object, Status, condition_of
from modelplane.compose.contract import Unavailable
from modelplane.control.caches import CONNECTING, Caches, Scope
from modelplane.control.index import Place
from modelplane.errors import ApiError, Forbidden, InvalidKubeconfig, ServerFailure, Throttled, Unauthorized
from modelplane.kube import Client, Kubeconfig

log = logging.getLogger(__name__)

INFERENCE_CLUSTER: Final = GVK(GROUP, VERSION, "InferenceCluster")
SECRET: Final = GVK("", "v1", "Secret")
PERIOD: Final = 2.0

CREDENTIAL_MISSING: Final = "CredentialMissing"
CREDENTIAL_REFUSED: Final = "CredentialRefused"
UNREACHABLE: Final = "Unreachable"
UNAUTHORIZED: Final = "Unauthorized"


class SecretKey(msgspec.Struct, frozen=True):
    """A key of a Secret in modelplane-system."""

    name: str
    key: str

    def __str__(self) -> str:
        return f"Secret {SYSTEM_NAMESPACE}/{self.name} key {self.key}"


class Link:
    """One registered cluster as we reach it now."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kubeconfig: Kubeconfig | None = None
        self.client: Client | None = None
        self.lost: Unavailable | None = None
        self.knock = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Clusters:
    """Keeps `Caches` supplied with clients. ``run`` until cancelled; the InferenceCluster and Secret caches wake it."""

    def __init__(
        self,
        caches: Caches,
        *,
        clock: Callable[[], str],
        period: float = PERIOD,
        user_agent: str = "",
        observe: Callable[[str, str, int], None] = lambda cluster, verb, code: None,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self._caches = caches
        self._clock = clock
        self._period = period
        self._agent = user_agent
        self._observe = observe
        self._guard = guard
        self._links: dict[str, Link] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.known = asyncio.Event()
        """Set once the registered clusters were read, or may not be: before that, one that is not listed is no missing one."""

    def start(self) -> None:
        """Begin to watch; to be called once, in the loop."""
        self._caches.on_change(self._changed)
        self._caches.on_fresh(self._fresh)
        self._clusters = self._caches.watch(None, INFERENCE_CLUSTER)
        self._secrets = self._caches.watch(None, SECRET, Scope(SYSTEM_NAMESPACE))
        self._learn()

    async def close(self) -> None:
        for name in list(self._links):
            self._drop(name)
        for task in list(self._closing):
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def ready(self) -> bool:
        """Whether it is known which clusters there are."""
        return self._clusters.informer.synced.is_set() and self._secrets.informer.synced.is_set()

    # --- inputs ----------------------------------------------------------------------------------------------------

    def _changed(self, place: Place, old: Object | None, new: Object | None) -> None:
        if place == (None, INFERENCE_CLUSTER):
            obj = new or old
            if obj is not None and self.ready:
                self._refresh(obj["metadata"]["name"])
        elif place == (None, SECRET):
            obj = new or old
            if obj is not None and self.ready and obj["metadata"].get("namespace") == SYSTEM_NAMESPACE:
                self._refresh_all()

    def _fresh(self, cluster: str | None, kind: GVK | None) -> None:
        if cluster is None and kind in (INFERENCE_CLUSTER, SECRET):
            self._learn()
        elif cluster in self._links and self._caches.troubled(cluster):
            self._links[cluster].knock.set()

    def _learn(self) -> None:
        self._refresh_all()
        informers = (self._clusters.informer, self._secrets.informer)
        if all(one.synced.is_set() or isinstance(one.error, Forbidden) for one in informers):
            self.known.set()

    def _refresh_all(self) -> None:
        if self.ready:
            names = {obj["metadata"]["name"] for obj in self._clusters.informer.items()}
            for name in sorted(names | set(self._links)):
                self._refresh(name)

    def _refresh(self, name: str) -> None:
        """Bring one link in line with its InferenceCluster and Secret."""
        cluster = self._clusters.informer.get(Key("", name))
        if cluster is None:
            self._drop(name)
            return
        link = self._links.get(name)
        kubeconfig, problem = self._credential(cluster)
        if link is not None and link.kubeconfig == kubeconfig and (kubeconfig is not None or _same(link.lost, problem)):
            return
        if link is None:
            link = self._links[name] = Link(name)
        elif link.kubeconfig is not None and kubeconfig is not None:
            log.info("cluster %s: the kubeconfig changed", name)
        self._retire(link)
        link.kubeconfig = kubeconfig
        link.lost = problem
        if kubeconfig is not None:
            link.lost = Unavailable(CONNECTING, self._clock(), f"{name} has not answered yet")
            observe = partial(self._observe, name)
            link.client = Client(kubeconfig, user_agent=self._agent, observe=observe, guard=self._guard)
            link.task = asyncio.create_task(self._beat(link), name=f"knock at {name}")
        self._caches.attach(name, link.client, link.lost)

    def _credential(self, cluster: Object) -> tuple[Kubeconfig | None, Unavailable | None]:
        name, ref = cluster["metadata"]["name"], secret_of(cluster)
        if ref is None:
            message = f"InferenceCluster {name} names no kubeconfig Secret; set spec.cluster.existing.secretRef"
            return None, Unavailable(CREDENTIAL_MISSING, self._since(name, CREDENTIAL_MISSING), message)
        secret = self._secrets.informer.get(Key(SYSTEM_NAMESPACE, ref.name))
        encoded = ((secret or {}).get("data") or {}).get(ref.key)
        if not encoded:
            missing = (
                f"Secret {SYSTEM_NAMESPACE}/{ref.name} does not exist" if secret is None else f"{ref} does not exist"
            )
            return None, Unavailable(
                CREDENTIAL_MISSING, self._clock(), f"{missing}; put the kubeconfig of {name} there"
            )
        try:
            text = base64.b64decode(encoded, validate=True).decode()
            kubeconfig = Kubeconfig.from_secret(text, origin=str(ref))
            kubeconfig.ssl_context()
        except (binascii.Error, UnicodeDecodeError):
            message = f"{ref} is no text; write a kubeconfig with inline credentials there"
            return None, Unavailable(CREDENTIAL_REFUSED, self._since(name, CREDENTIAL_REFUSED), message)
        except InvalidKubeconfig as error:
            return None, Unavailable(CREDENTIAL_REFUSED, self._since(name, CREDENTIAL_REFUSED), str(error))
        return kubeconfig, None

    def _since(self, name: str, reason: str) -> str:
        """When the trouble began: now, or when a predecessor of ours wrote it down."""
        cluster = self._clusters.informer.get(Key("", name))
        known = condition_of(cluster, "Reachable") if cluster is not None else None
        if known is not None and known.status is Status.FALSE and known.reason == reason and known.last_transition_time:
            return known.last_transition_time
        return self._clock()

    # --- reachability ----------------------------------------------------------------------------------------------

    async def _beat(self, link: Link) -> None:
        client = link.client
        assert client is not None
        while True:
            knocked = link.knock.is_set()
            link.knock.clear()
            try:
                await client.check(0 if knocked or link.lost else self._period)
            except (ServerFailure, Throttled):
                pass
            except ApiError as error:
                self._reach(link, error)
            except Exception:
                log.exception("cluster %s: the knock failed", link.name)
            else:
                self._reach(link, None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period if link.lost is None else self._period / 4):
                    await link.knock.wait()
            if link.lost is not None:
                await asyncio.sleep(self._period / 8)

    def _reach(self, link: Link, error: ApiError | None) -> None:
        if error is None:
            lost = None
        else:
            reason = UNAUTHORIZED if isinstance(error, Unauthorized) else UNREACHABLE
            known = link.lost is not None and link.lost.reason == reason
            since = link.lost.since if known and link.lost is not None else self._since(link.name, reason)
            lost = Unavailable(reason, since, str(error))
        if (link.lost and link.lost.reason) != (lost and lost.reason):
            log.log(
                logging.WARNING if lost else logging.INFO,
                "cluster %s: %s",
                link.name,
                lost.message if lost else "answers",
            )
            link.lost = lost
            self._caches.set_lost(link.name, lost)

    # --- leaving ---------------------------------------------------------------------------------------------------

    def _retire(self, link: Link) -> None:
        if link.task is not None:
            link.task.cancel()
            link.task = None
        if link.client is not None:
            self._later(link.client.close())
            link.client = None

    def _drop(self, name: str) -> None:
        link = self._links.pop(name, None)
        if link is not None:
            self._retire(link)
            self._caches.detach(name)

    def _later(self, closing: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def secret_of(cluster: Object) -> SecretKey | None:
    """Where a cluster's kubeconfig is; None for a source that has none."""
    existing = (((cluster.get("spec") or {}).get("cluster") or {}).get("existing")) or {}
    ref = existing.get("secretRef") or {}
    return SecretKey(ref["name"], ref.get("key") or "kubeconfig") if ref.get("name") else None


def _same(one: Unavailable | None, other: Unavailable | None) -> bool:
    """Whether two losses are one: the time does not count."""
    return one is other or (
        one is not None and other is not None and (one.reason, one.message) == (other.reason, other.message)
    )
