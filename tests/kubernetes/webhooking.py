"""The operator's webhook in a thread of its own, registered at a real API server under its URL.

An API server takes a registration over within a second or so; the first refusal shows when.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from modelplane.api.kinds import BY_KIND
from modelplane.api.meta import Object
from modelplane.operator.webhook import PATH, Webhook
from modelplane.server.reviews import REVIEWS
from modelplane.server.tls import make_certificates
from tests.kubernetes.endpoint import Endpoint

NAME: Final = "validate.modelplane.ai"
DENIED: Final = f'admission webhook "{NAME}" denied the request: '
"""What kube-apiserver puts before a webhook's own words."""
_PATH: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_JSON: Final = {"Content-Type": "application/json"}


@contextmanager
def registered(real: Endpoint, folder: Path, probe: tuple[str, Object]) -> Iterator[None]:
    """Until the end of the block ``real`` asks the webhook; ``probe`` is the path and body of an object that only it refuses."""
    with _serving(folder) as port:
        body = json.dumps(_configuration(port, (folder / "ca.crt").read_bytes())).encode()
        made = real.send("POST", _PATH, body, _JSON)
        assert made.status == 201, made.body
        try:
            deadline = time.monotonic() + 30
            while real.send("POST", f"{probe[0]}?dryRun=All", json.dumps(probe[1]).encode(), _JSON).status < 400:
                assert time.monotonic() < deadline, "kube-apiserver does not ask the webhook"
                time.sleep(0.05)
            yield
        finally:
            real.send("DELETE", f"{_PATH}/{NAME}")


@contextmanager
def _serving(folder: Path) -> Iterator[int]:
    """The port of a running webhook."""
    folder.mkdir()
    make_certificates(folder, ["127.0.0.1"])
    (folder / "serving.crt").rename(folder / "tls.crt")
    (folder / "serving.key").rename(folder / "tls.key")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="webhook", daemon=True)
    thread.start()
    webhook = Webhook(folder)
    try:
        asyncio.run_coroutine_threadsafe(webhook.start(0, "127.0.0.1"), loop).result(20)
        yield webhook.port
    finally:
        asyncio.run_coroutine_threadsafe(webhook.close(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


def _configuration(port: int, authority: bytes) -> Object:
    resources = [BY_KIND[kind].resource for kind in REVIEWS]
    groups = {resource.gvk.group for resource in resources}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": NAME,
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}{PATH}",
                    "caBundle": base64.b64encode(authority).decode(),
                },
                "rules": [
                    {
                        "apiGroups": sorted(groups),
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [resource.plural for resource in resources],
                    }
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
            }
        ],
    }
