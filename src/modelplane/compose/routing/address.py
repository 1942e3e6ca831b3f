"""Published addresses and URLs made of them.

A published gateway address is `host` or `host:port`; a bare IPv6 literal is accepted too and gets its brackets here, so that no
URL of ours fails to parse.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST: Final = 253


def address_type(host: str) -> str:
    """``IPv4``, ``IPv6`` or ``FQDN``, as EndpointSlice has it."""
    try:
        return f"IPv{ip_address(host).version}"
    except ValueError:
        return "FQDN"


def refusal(host: str, *, loopback: bool) -> str:
    """Why no EndpointSlice may hold a host, and what to write instead; empty where one may. ``loopback`` allows this machine."""
    try:
        address = ip_address(host)
    except ValueError:
        labels = host.removesuffix(".").split(".")
        if len(host) > _LONGEST or not all(map(_LABEL.fullmatch, labels)):
            return "is no DNS name; write labels of letters, digits and '-' with dots between them, or an address"
        if labels[-1].isdecimal():
            return "is no IPv4 address, which has four numbers up to 255 without zeros in front"
        if len(labels) == 1:
            return "is a name without a domain, which a gateway cannot look up; write it in full, or an address"
        return ""
    if address.is_loopback and not loopback:
        return "is the gateway's own machine; write an address that its pods can reach"
    if address.is_unspecified:
        return "is no address to send to; write the one that the server has"
    if address.is_link_local or host.startswith(("224.0.0.", "ff02:")):
        return "is an address that only one network segment knows; write one that can be routed"
    if "%" in host:
        return "names a network interface; write the address without its zone"
    return ""


def url_to(address: str, path: str, *, scheme: str = "http") -> str:
    """The URL of ``path``, which starts with a slash, at a published address."""
    authority = f"[{address}]" if address_type(address) == "IPv6" else address
    return f"{scheme}://{authority}{path}"
