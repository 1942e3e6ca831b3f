"""Who is asking: bearer tokens of the administrator, of a token file, and of service accounts.

Service-account tokens are signed with a key that lives in the data directory, so they survive a restart; a token dies
with its service account (UID) or the object that it is bound to. The signature is HMAC over SHA-256: the server that
checks a token is always the one that made it, and nothing heavier than the standard library is imported for it.
There are no client certificates.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from modelplane.api.meta import Object
from modelplane.errors import PermanentError
from modelplane.server import refusals
from modelplane.server.objects import encode, metadata_of
from modelplane.server.request import ANONYMOUS, User
from modelplane.server.store import Key, Store

ISSUER: Final = "https://kubernetes.default.svc"
AUDIENCE: Final = "https://kubernetes.default.svc"
ADMIN: Final = User("kubernetes-admin", ("system:masters", "system:authenticated"))
LEEWAY: Final = 10.0
SHORTEST: Final = 16


def write_secretly(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, all of it or nothing."""
    partial = path.with_name(path.name + ".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def keep_secret(path: Path, size: int = 32) -> bytes:
    """The random text in a file, made on the first call. Raises PermanentError for a file that holds something else."""
    if not path.exists():
        write_secretly(path, secrets.token_urlsafe(size).encode())
    secret = path.read_bytes().strip()
    if len(secret) < SHORTEST or not (secret.isascii() and secret.decode("ascii").isprintable()):
        raise PermanentError(
            f"{path} holds no secret (at least {SHORTEST} printable characters); put back a copy, or move it away and a new "
            "one is made, which ends what the old one opened"
        )
    return secret


def read_token_file(path: Path) -> dict[str, User]:
    """Lines of ``token,user,uid[,"group1,group2"]``. Raises PermanentError with the line that is wrong."""
    users: dict[str, User] = {}
    with path.open(newline="") as file:
        for row in csv.reader(file):
            cells = [cell.strip() for cell in row]
            if not cells or cells[0].startswith("#"):
                continue
            if len(cells) < 3 or not cells[0]:
                raise PermanentError(
                    f'{path}: a line of the token file is token,user,uid[,"groups"]; got {len(cells)} fields'
                )
            groups = tuple(g.strip() for g in cells[3].split(",") if g.strip()) if len(cells) > 3 else ()
            users[cells[0]] = User(cells[1], (*groups, "system:authenticated"), cells[2])
    return users


class Claims(msgspec.Struct, omit_defaults=True):
    """The claims of a service-account token that the server reads and writes."""

    iss: str
    sub: str
    aud: list[str]
    exp: int
    iat: int
    nbf: int
    jti: str
    private: Object = msgspec.field(name="kubernetes.io")


class Authenticator:
    """Turns an Authorization header into a User; wrong credentials are refused, none is anonymous."""

    def __init__(self, store: Store, admin_token: str, signing_key: bytes, users: dict[str, User]) -> None:
        self._store = store
        self._key = signing_key
        self._users = {**users, admin_token: ADMIN}

    def user(self, authorization: str) -> User:
        """Raises a 401."""
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return ANONYMOUS
        user = self.review(token.strip(), (AUDIENCE,))
        if user is None:
            raise refusals.unauthorized()
        return user

    def review(self, token: str, audiences: Sequence[str]) -> User | None:
        """The user of a token that is good for one of the audiences, or None."""
        known = self._users.get(token)
        if known is not None:
            return known
        claims = self._verified(token)
        if claims is None or not set(claims.aud) & set(audiences):
            return None
        return self._service_account(claims)

    def issue(
        self, namespace: str, name: str, uid: str, *, seconds: int, audiences: Sequence[str], bound: Object | None
    ) -> tuple[str, int]:
        """A token for a service account and its expiry (Unix seconds). ``bound`` is {kind, name, uid} of a Pod, ..."""
        issued = int(time.time())
        private: Object = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
        if bound:
            private[bound["kind"].lower()] = {"name": bound["name"], "uid": bound["uid"]}
        claims = Claims(
            iss=ISSUER,
            sub=f"system:serviceaccount:{namespace}:{name}",
            aud=list(audiences) or [AUDIENCE],
            exp=issued + seconds,
            iat=issued,
            nbf=issued,
            jti=secrets.token_hex(16),
            private=private,
        )
        signed = _segment(encode({"alg": "HS256", "typ": "JWT"})) + b"." + _segment(encode(claims))
        return (signed + b"." + _segment(self._sign(signed))).decode(), claims.exp

    def _sign(self, signed: bytes) -> bytes:
        return hmac.new(self._key, signed, hashlib.sha256).digest()

    def _verified(self, token: str) -> Claims | None:
        signed, _, signature = token.encode(errors="replace").rpartition(b".")
        if not hmac.compare_digest(_segment(self._sign(signed)), signature):
            return None
        try:
            claims = msgspec.json.decode(_unsegment(signed.partition(b".")[2]), type=Claims)
        except (ValueError, msgspec.MsgspecError):
            return None
        moment = time.time()
        if claims.iss != ISSUER or not claims.nbf - LEEWAY <= moment <= claims.exp + LEEWAY:
            return None
        return claims

    def _service_account(self, claims: Claims) -> User | None:
        namespace = claims.private["namespace"]
        account = claims.private["serviceaccount"]
        if not self._alive("serviceaccounts", namespace, account):
            return None
        for kind, resource in (("pod", "pods"), ("secret", "secrets"), ("node", "nodes")):
            bound = claims.private.get(kind)
            if bound and not self._alive(resource, "" if kind == "node" else namespace, bound):
                return None
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims.jti}"]}
        if pod := claims.private.get("pod"):
            extra["authentication.kubernetes.io/pod-name"] = [pod["name"]]
            extra["authentication.kubernetes.io/pod-uid"] = [pod["uid"]]
        return service_account_user(namespace, account["name"], account["uid"], extra)

    def _alive(self, resource: str, namespace: str, reference: Object) -> bool:
        entry = self._store.get(Key(resource, namespace, reference["name"]))
        return entry is not None and metadata_of(entry).uid == reference["uid"]


def service_account_user(namespace: str, name: str, uid: str, extra: dict[str, list[str]] | None = None) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra or {})


def _segment(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _unsegment(data: bytes) -> bytes:
    return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))
