"""Paths below an object: status, scale, finalize, binding, token, log, eviction; and the streams that are not served."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from modelplane.api.meta import Object
from modelplane.errors import Refusal
from modelplane.server import deleting, patching, reading, refusals, scaling, shaping, writing
from modelplane.server.call import Answer, Call, Stream
from modelplane.server.call import answer as as_answer
from modelplane.server.objects import metadata_of, now
from modelplane.server.store import Key

STREAMS: Final = frozenset({"exec", "attach", "portforward", "proxy"})
TOKEN_SECONDS: Final = 3600


async def answer(call: Call) -> Answer | Stream:
    """Answer a request for a subresource. Raises a 404 for one that the kind does not have."""
    below = call.type.subresources.get(call.subresource)
    if below is None or call.request.target.tail:
        raise call.not_found() if call.type.custom else refusals.no_such_resource()
    method = call.request.method
    match call.subresource:
        case "scale":
            return await scaling.answer_scale(call)
        case "binding" if method == "POST":
            return await bind(call, shaping.decoded_as(call, below.gvk))
        case "eviction" if method == "POST":
            return await _evict(call, shaping.decoded_as(call, below.gvk))
        case "token" if method == "POST":
            return _token(call, shaping.decoded_as(call, below.gvk))
        case "log" if method == "GET":
            from modelplane.server import logs

            return await logs.proxy(call)
        case "finalize" if method == "PUT":
            return await _finalize(call)
        case name if name in STREAMS:
            raise Refusal(
                501,
                "NotImplemented",
                f"{call.type.plural}/{name} is not served by this API server: it has no streams into containers. "
                "Read what a pod prints with `kubectl logs`; reach it at its own address.",
                {},
            )
    if call.subresource in ("status", "ephemeralcontainers", "resize"):
        if method in ("GET", "HEAD"):
            return reading.get(call)
        if method == "PUT":
            return await writing.update(call)
        if method == "PATCH":
            return await patching.patch(call)
    raise refusals.not_supported(call.type, call.request.target.verb)


async def bind(call: Call, body: Object) -> Answer:
    """Give a pod its node: what a scheduler does."""
    target = body.get("target") or {}
    name = call.name or (body.get("metadata") or {}).get("name", "")
    if target.get("kind") not in (None, "", "Node"):
        raise Refusal(
            500, "", f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        )
    node = target.get("name", "")
    if not node:
        raise Refusal(500, "", "target.name: Required value")
    pods = call.backend.registry.find("", "v1", "pods")
    if pods is None:
        raise refusals.no_such_resource()
    pod_call = Call(call.backend, pods, call.request, call.media, call.namespace, name, "binding")
    uid = (body.get("metadata") or {}).get("uid")

    def assign(old: Object) -> Object:
        def refuse(why: str) -> Refusal:
            return refusals.conflict("pods/binding", "", name, why)

        if old["metadata"].get("deletionTimestamp"):
            raise refuse(f"pod {name} is being deleted, cannot be assigned to a host")
        if uid and uid != old["metadata"]["uid"]:
            raise refuse(
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            )
        if old["spec"].get("nodeName"):
            raise refuse(f'pod {name} is already assigned to node "{old["spec"]["nodeName"]}"')
        if old["spec"].get("schedulingGates"):
            raise refuse(f"pod {name} has non-empty .spec.schedulingGates")
        metadata = dict(old["metadata"])
        extra = (body.get("metadata") or {}).get("annotations")
        if extra:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **extra}
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
        status = dict(old.get("status") or {})
        status["conditions"] = [
            *(c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"),
            scheduled,
        ]
        return {**old, "metadata": metadata, "spec": {**old["spec"], "nodeName": node}, "status": status}

    await writing.modify(pod_call, assign, tracked=True)
    return as_answer(
        call.media, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
    )


async def _evict(call: Call, body: Object) -> Answer:
    """Delete a pod by way of the eviction path; disruption budgets are stored and not enforced."""
    options = deleting.DeleteOptions()
    asked = body.get("deleteOptions") or {}
    options.grace_period_seconds = asked.get("gracePeriodSeconds")
    options.dry_run = asked.get("dryRun")
    await deleting.remove(call, options)
    return as_answer(
        call.media, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
    )


def _token(call: Call, body: Object) -> Answer:
    """TokenRequest: a token of a service account, perhaps bound to a pod."""
    spec = body.get("spec") or {}
    account = metadata_of(call.entry())
    seconds = spec.get("expirationSeconds") or TOKEN_SECONDS
    if seconds < 600:
        why = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
        raise refusals.invalid_field("TokenRequest", "authentication.k8s.io", "", "spec.expirationSeconds", why)
    bound = spec.get("boundObjectRef")
    if bound:
        resource = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}.get(bound.get("kind", ""))
        if resource is None:
            raise refusals.bad_request(f"cannot bind token to object of kind {bound.get('kind')}")
        found = call.backend.store.get(Key(resource, "" if resource == "nodes" else call.namespace, bound["name"]))
        if found is None:
            raise refusals.not_found(resource, "", bound["name"])
        actual = metadata_of(found).uid
        if bound.get("uid") and bound["uid"] != actual:
            why = (
                f"the UID in the bound object reference ({bound['uid']}) does not match the UID in record ({actual}). "
            )
            raise refusals.conflict(
                resource, "", bound["name"], why + "The object might have been deleted and then recreated"
            )
        bound = {**bound, "uid": actual}
    token, expiry = call.backend.authenticator.issue(
        call.namespace, call.name, account.uid, seconds=seconds, audiences=spec.get("audiences") or (), bound=bound
    )
    expires = datetime.fromtimestamp(expiry, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": call.name, "namespace": call.namespace, "creationTimestamp": now()},
        "spec": {
            **spec,
            "audiences": spec.get("audiences") or ["https://kubernetes.default.svc"],
            "expirationSeconds": seconds,
        },
        "status": {"token": token, "expirationTimestamp": expires},
    }
    return as_answer(call.media, made, 201)


async def _finalize(call: Call) -> Answer:
    """Set the finalizers of a namespace; without any it goes, if it was to be deleted."""
    body = shaping.decoded_as(call, call.type.gvk)
    wanted = list((body.get("spec") or {}).get("finalizers") or ())

    def set_finalizers(old: Object) -> Object:
        given = body.get("metadata") or {}
        revision = given.get("resourceVersion")
        if revision and revision != old["metadata"]["resourceVersion"]:
            raise call.conflict(call.name)
        spec = {key: value for key, value in (old.get("spec") or {}).items() if key != "finalizers"}
        return {**old, "spec": {**spec, "finalizers": wanted} if wanted else spec}

    return reading.one(call, await writing.modify(call, set_finalizers, tracked=True))
