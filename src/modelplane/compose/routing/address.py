"""Published addresses and URLs made of them.

A published gateway address is `host` or `host:port`; a bare IPv6 literal is accepted too and gets its brackets here, so that no
URL of ours fails to parse.
"""

from __future__ import annotations

from ipaddress import ip_address


def address_type(host: str) -> str:
    """``IPv4``, ``IPv6`` or ``FQDN``, as EndpointSlice has it."""
    try:
        return f"IPv{ip_address(host).version}"
    except ValueError:
        return "FQDN"


def url_to(address: str, path: str, *, scheme: str = "http") -> str:
    """The URL of ``path``, which starts with a slash, at a published address."""
    authority = f"[{address}]" if address_type(address) == "IPv6" else address
    return f"{scheme}://{authority}{path}"
