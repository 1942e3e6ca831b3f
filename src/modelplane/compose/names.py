"""Names of composed objects.

The child name is a published recipe. Two cases need more than it, since Kubernetes would refuse the name: readable names that
grow beyond 63 characters, and Services, whose names have to be DNS-1035 labels.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

LIMIT: Final = 63
_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def childname(*parts: str, digits: int = 5) -> str:
    """The parts joined with dashes, cut to fit 63 characters, and hex digits of the uncut join's SHA-256.

    Ten digits are for a name that somebody else has already.
    """
    full = "-".join(parts)
    digest = hashlib.sha256(full.encode()).hexdigest()[:digits]
    return f"{full[: LIMIT - 1 - digits].rstrip('-')}-{digest}"


def suffixed(name: str, suffix: str) -> str:
    """``name-suffix``, or the hashed short form where that is longer than a label may be."""
    full = f"{name}-{suffix}"
    return full if len(full) <= LIMIT else childname(name, suffix)


def object_name(candidate: str) -> str:
    """The candidate with everything that an object's name may not have replaced; a hash at its end keeps two apart."""
    return re.sub(r"[^-a-z0-9.]", "-", candidate.lower())


def host_name(candidate: str) -> str:
    """An object's name without dots: pods are called after it, and a pod's name is its host name."""
    return object_name(candidate).replace(".", "-")


def service_name(candidate: str) -> str:
    """The candidate where it is a valid Service name, else a valid name derived from it.

    The hash of the derived name covers the candidate as it was, so that `a.b` and `a-b` stay two.
    """
    if len(candidate) <= LIMIT and _DNS_1035.fullmatch(candidate):
        return candidate
    digest = childname(candidate).rpartition("-")[2]
    label = re.sub(r"[^-a-z0-9]", "-", candidate.lower()).strip("-")
    prefix = label if label[:1].isalpha() else f"s-{label}".rstrip("-")
    return f"{prefix[: LIMIT - len(digest) - 1].rstrip('-')}-{digest}"
