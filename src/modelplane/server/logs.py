"""Pod logs: asked of the node that runs the pod, at the address that its status gives, and passed on as they come."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from typing import Final
from urllib.parse import quote, urlencode

from modelplane.api.meta import Object
from modelplane.errors import Refusal
from modelplane.server import refusals
from modelplane.server.call import Answer, Call, Sink, Stream, view
from modelplane.server.objects import read
from modelplane.server.store import Key

CONNECT_SECONDS: Final = 5.0
CHUNK: Final = 1 << 16
_PASSED: Final = ("follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "stream")


async def proxy(call: Call) -> Answer | Stream:
    """GET of a pod's log. Raises a 400 when the container is not clear or not there, a 500 when the node is away."""
    pod = view(call.type, call.entry())
    container = _container(call, pod)
    node_name = (pod.get("spec") or {}).get("nodeName", "")
    if not node_name:
        return Answer(204, b"", "text/plain")
    host, port = _kubelet(call, node_name)
    parameters = {name: call.request.query.get(name) for name in _PASSED if call.request.query.has(name)}
    path = "/containerLogs/" + "/".join(quote(part) for part in (call.namespace, call.name, container))
    if parameters:
        path += "?" + urlencode(parameters)
    code, chunks = await _get(host, port, path)
    if code != 200:
        text = b"".join([chunk async for chunk in chunks]).decode(errors="replace").strip()
        raise Refusal(code, "BadRequest" if code == 400 else "NotFound" if code == 404 else "InternalError", text, {})

    async def run(sink: Sink) -> None:
        async with contextlib.aclosing(chunks) as closing:
            async for chunk in closing:
                sink.write(chunk)
                await sink.ready()

    return Stream(run, "text/plain")


def _container(call: Call, pod: Object) -> str:
    spec = pod.get("spec") or {}
    names = [c["name"] for c in spec.get("containers") or ()]
    initial = [c["name"] for c in spec.get("initContainers") or ()]
    added = [c["name"] for c in spec.get("ephemeralContainers") or ()]
    asked = call.request.query.get("container")
    if not asked:
        if len(names) == 1 and not initial:
            return str(names[0])
        default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
        if default in names:
            return str(default)
        choices = " ".join(names)
        more = f" or one of the init containers: [{' '.join(initial)}]" if initial else ""
        raise refusals.bad_request(
            f"a container name must be specified for pod {call.name}, choose one of: [{choices}]{more}"
        )
    if asked not in (*names, *initial, *added):
        raise refusals.bad_request(f"container {asked} is not valid for pod {call.name}")
    return asked


def _kubelet(call: Call, node_name: str) -> tuple[str, int]:
    entry = call.backend.store.get(Key("nodes", "", node_name))
    if entry is None:
        raise refusals.not_found("nodes", "", node_name)
    status = read(entry).get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    addresses = {address["type"]: address["address"] for address in status.get("addresses") or ()}
    host = addresses.get("InternalIP") or addresses.get("Hostname")
    if not port or not host:
        raise refusals.internal(f"node {node_name} does not say where its logs are (status.daemonEndpoints, addresses)")
    return host, port


async def _get(host: str, port: int, path: str) -> tuple[int, AsyncGenerator[bytes, None]]:
    """The status and body of one GET. The kubelet's certificate is its own, so it is not checked, as by default."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port, ssl=unchecked)
    except (OSError, TimeoutError) as error:
        raise refusals.internal(f'Get "https://{host}:{port}{path}": {error or "timed out"}') from None
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
    try:
        status = (await reader.readline()).split()
        headers: dict[str, str] = {}
        while line := (await reader.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        code = int(status[1])
    except (OSError, IndexError, ValueError) as error:
        writer.close()
        raise refusals.internal(f'Get "https://{host}:{port}{path}": malformed answer: {error}') from None
    chunked = headers.get("transfer-encoding", "").lower() == "chunked"
    return code, _body(reader, writer, chunked=chunked, length=headers.get("content-length"))


async def _body(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, chunked: bool, length: str | None
) -> AsyncGenerator[bytes, None]:
    try:
        if not chunked:
            left = int(length) if length is not None else -1
            while left:
                data = await reader.read(CHUNK if left < 0 else min(CHUNK, left))
                if not data:
                    return
                left = left - len(data) if left > 0 else left
                yield data
            return
        while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
            yield await reader.readexactly(size)
            await reader.readline()
    finally:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()
