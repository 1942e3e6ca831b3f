"""IP addresses, CIDR blocks and URLs as Kubernetes' CEL has them: canonical spellings only, no zones, no IPv4 in IPv6."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import SplitResult, quote, unquote_plus, unquote_to_bytes, urlsplit

from modelplane.plan.cel.registry import declare
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import Value, register_kind

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class IP:
    address: _Address


@dataclass(frozen=True, slots=True)
class CIDR:
    """A block as written: the address may have host bits."""

    address: _Address
    bits: int

    def block(self) -> _Network:
        return ipaddress.ip_network(f"{self.address}/{self.bits}", strict=False)


@dataclass(frozen=True, slots=True)
class URL:
    text: str
    parts: SplitResult


register_kind(IP, "net.IP")
register_kind(CIDR, "net.CIDR")
register_kind(URL, "kubernetes.URL")


def _address(text: str) -> _Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise Fault(f"IP Address '{text}' parse error during conversion from string") from None
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id or address.ipv4_mapped):
        raise Fault(f"IP Address '{text}' has a zone or is an IPv4-mapped IPv6 address, which is not allowed")
    return address


def _is(parse: object, text: str) -> bool:
    assert callable(parse)
    try:
        parse(text)
    except Fault:
        return False
    return True


# --- addresses -----------------------------------------------------------------------------------------------------


@declare("ip", "(string) -> IP")
def to_ip(text: str) -> IP:
    return IP(_address(text))


@declare("isIP", "(string) -> bool")
def is_ip(text: str) -> bool:
    return _is(to_ip, text)


@declare("ip.isCanonical", "(string) -> bool")
def is_canonical(text: str) -> bool:
    return str(_address(text)) == text


@declare("family", "IP.() -> int")
def family(ip: IP) -> int:
    return ip.address.version


@declare("isUnspecified", "IP.() -> bool")
def is_unspecified(ip: IP) -> bool:
    return ip.address.is_unspecified


@declare("isLoopback", "IP.() -> bool")
def is_loopback(ip: IP) -> bool:
    return ip.address.is_loopback


@declare("isLinkLocalMulticast", "IP.() -> bool")
def is_link_local_multicast(ip: IP) -> bool:
    block = "224.0.0.0/24" if ip.address.version == 4 else "ff02::/16"
    return ip.address in ipaddress.ip_network(block)


@declare("isLinkLocalUnicast", "IP.() -> bool")
def is_link_local_unicast(ip: IP) -> bool:
    return ip.address.is_link_local and not ip.address.is_multicast


@declare("isGlobalUnicast", "IP.() -> bool")
def is_global_unicast(ip: IP) -> bool:
    address = ip.address
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and str(address) != "255.255.255.255"


@declare("string", "(IP) -> string")
def ip_text(ip: IP) -> str:
    return str(ip.address)


# --- blocks --------------------------------------------------------------------------------------------------------


@declare("cidr", "(string) -> CIDR")
def to_cidr(text: str) -> CIDR:
    address, slash, bits = text.partition("/")
    number = int(bits) if bits.isascii() and bits.isdigit() and len(bits) <= 3 else -1
    found = _address(address) if slash else None
    if found is None or str(number) != bits or not 0 <= number <= found.max_prefixlen:
        raise Fault(f"network address parse error during conversion from string: '{text}'")
    return CIDR(found, number)


@declare("isCIDR", "(string) -> bool")
def is_cidr(text: str) -> bool:
    return _is(to_cidr, text)


@declare("containsIP", "CIDR.(string) -> bool", "CIDR.(IP) -> bool")
def contains_ip(cidr: CIDR, ip: Value) -> bool:
    address = ip.address if isinstance(ip, IP) else _address(str(ip))
    return address in cidr.block()


@declare("containsCIDR", "CIDR.(string) -> bool", "CIDR.(CIDR) -> bool")
def contains_cidr(cidr: CIDR, other: Value) -> bool:
    inner = other if isinstance(other, CIDR) else to_cidr(str(other))
    return inner.bits >= cidr.bits and inner.address in cidr.block()


@declare("ip", "CIDR.() -> IP")
def cidr_ip(cidr: CIDR) -> IP:
    return IP(cidr.address)


@declare("masked", "CIDR.() -> CIDR")
def masked(cidr: CIDR) -> CIDR:
    return CIDR(cidr.block().network_address, cidr.bits)


@declare("prefixLength", "CIDR.() -> int")
def prefix_length(cidr: CIDR) -> int:
    return cidr.bits


@declare("string", "(CIDR) -> string")
def cidr_text(cidr: CIDR) -> str:
    return f"{cidr.address}/{cidr.bits}"


# --- URLs ----------------------------------------------------------------------------------------------------------


_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPED_PATH: Final = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@\[\]/%]*")
# A host may escape only bytes beyond ASCII.
_AUTHORITY: Final = re.compile(r"(?:(?:[^%]|%[0-9A-Fa-f]{2})*@)?(?:\[.*|(?:[^%]|%[89A-Fa-f][0-9A-Fa-f])*)")
_HOST: Final = re.compile(r"(?:\[[^\]]*\]|[^:\[]*)(?::[0-9]*)?")


def _split(text: str, *, fragments: bool) -> SplitResult:
    """The parts of a URL, absolute or of a path alone. Raises `Fault`."""
    try:
        parts = urlsplit(text, allow_fragments=fragments)
    except ValueError as error:
        raise Fault(f"URL parse error during conversion from string: {error}") from None
    if parts.scheme and not parts.netloc and not parts.path.startswith("/"):
        parts = parts._replace(path="")  # opaque, such as mailto:a@b
    elif not (text == "*" or text.startswith("/") or parts.scheme):
        raise _no_url(text)
    if any(ord(char) < 32 or ord(char) == 127 for char in text) or text[:1] == " " or " " in parts.netloc:
        raise _no_url(text)
    if any(map(_BAD_ESCAPE.search, (parts.path, parts.fragment))) or not _AUTHORITY.fullmatch(parts.netloc):
        raise _no_url(text)
    if not _HOST.fullmatch(parts.netloc.rpartition("@")[2]):
        raise _no_url(text)
    return parts


def _no_url(text: str) -> Fault:
    return Fault(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")


def _requested(text: str) -> SplitResult:
    """As it is asked for: what is no fragment yet must not spoil path or query."""
    return _split(text, fragments=False)


@declare("url", "(string) -> URL")
def to_url(text: str) -> URL:
    _requested(text)
    return URL(text, _split(text, fragments=True))


@declare("isURL", "(string) -> bool")
def is_url(text: str) -> bool:
    return _is(_requested, text)


@declare("getScheme", "URL.() -> string")
def scheme(url: URL) -> str:
    return url.parts.scheme


@declare("getHost", "URL.() -> string")
def host(url: URL) -> str:
    return url.parts.netloc.rpartition("@")[2]


@declare("getHostname", "URL.() -> string")
def hostname(url: URL) -> str:
    name = _named(url)[0]
    return name[1:-1] if name.startswith("[") else name


@declare("getPort", "URL.() -> string")
def port(url: URL) -> str:
    return _named(url)[1]


def _named(url: URL) -> tuple[str, str]:
    """A host's name and port, which is any number of digits."""
    whole: str = host(url)
    name, colon, digits = whole.rpartition(":")
    return (name, digits) if colon and "]" not in digits else (whole, "")


@declare("getEscapedPath", "URL.() -> string")
def escaped_path(url: URL) -> str:
    path = url.parts.path
    return path if _ESCAPED_PATH.fullmatch(path) else quote(unquote_to_bytes(path), safe="$&+,/:;=@-._~")


@declare("getQuery", "URL.() -> map(string, list(string))")
def query(url: URL) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.parts.query.split("&"):
        if pair and ";" not in pair and not _BAD_ESCAPE.search(pair):
            key, _, value = pair.partition("=")
            found.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return found
