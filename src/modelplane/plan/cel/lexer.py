"""CEL's tokens: one regular expression, and the escapes of strings.

The parser of the reference library is not used: it costs every process that checks one rule 24 MB, and its checker does not know
Kubernetes' macros and types. The tests compare the two parsers tree by tree.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from modelplane.plan.cel.syntax import CelError, Source
from modelplane.plan.cel.values import UInt


class Token(NamedTuple):
    """``kind`` is ident, literal, end, or the punctuation or keyword itself."""

    kind: str
    text: str
    at: int
    value: object = None


_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
    |(?P<string>(?:[bB]?[rR]?)(?:\"{3}(?s:(?:\\.|[^\\])*?)\"{3}|'{3}(?s:(?:\\.|[^\\])*?)'{3}
        |"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'))
    |(?P<float>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)(?P<unsigned>[uU]?)
    |(?P<ident>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<punct>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
# A raw string ends at its first quote, whatever backslashes stand before it.
_RAW: Final = re.compile(r"""(?:[bB]?[rR])(?:\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}|"[^"\r\n]*"|'[^'\r\n]*')""")
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.|\n))"
)
_SIMPLE: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_WORDS: Final = {"true": True, "false": False, "null": None}
RESERVED: Final = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)
KEYWORDS: Final = RESERVED | {"true", "false", "null", "in"}


def tokens(source: Source) -> list[Token]:
    """All tokens and an ``end``. Raises `CelError` where no token starts."""
    text, at, found = source.text, 0, []
    while at < len(text):
        match = (_RAW.match(text, at) if text[at] in "rRbB" else None) or _TOKEN.match(text, at)
        if match is None:
            what = text[at:].split("\n", 1)[0] if text[at] in "\"'" else text[at]
            raise CelError(source, [source.issue(at, f"Syntax error: token recognition error at: '{what}'")])
        token = _token(source, match, at)
        if token is not None:
            found.append(token)
        at = match.end()
    found.append(Token("end", "<EOF>", len(text)))
    return found


def _token(source: Source, match: re.Match[str], at: int) -> Token | None:
    text = match.group()
    kind = match.lastgroup if match.re is _TOKEN else "string"
    if kind == "space":
        return None
    if kind == "string":
        return Token("literal", text, at, _string(source, text, at))
    if kind == "float":
        return Token("literal", text, at, float(text))
    if kind in ("int", "unsigned"):
        digits, unsigned = match.group("int"), match.group("unsigned")
        number = 2**64 if len(digits) > 100 else int(digits, 16) if digits.startswith("0x") else int(digits)
        if number > (2**64 - 1 if unsigned else 2**63):
            raise CelError(source, [source.issue(at, f"invalid {'uint' if unsigned else 'int'} literal")])
        return Token("literal", text, at, UInt(number) if unsigned else number)
    if kind == "ident":
        if text in _WORDS:
            return Token("literal", text, at, _WORDS[text])
        return Token("in" if text == "in" else "ident", text, at)
    return Token(text, text, at)


def _string(source: Source, text: str, at: int) -> str | bytes:
    start = 0
    while text[start] not in "\"'":
        start += 1
    prefix = text[:start].lower()
    quotes = 3 if text[start : start + 3] in ('"""', "'''") and len(text) - start >= 6 else 1
    body = text[start + quotes : -quotes]
    if "b" in prefix:
        return body.encode() if "r" in prefix else _unescape_bytes(source, body, at)
    return body if "r" in prefix else _ESCAPE.sub(lambda match: _unescaped(source, match, at), body)


def _unescaped(source: Source, match: re.Match[str], at: int) -> str:
    simple, x, big_x, u, big_u, octal, other = match.groups()
    if simple is not None:
        return _SIMPLE[simple]
    if other is not None:
        raise CelError(source, [source.issue(at, f"Syntax error: invalid escape sequence \\{other}")])
    code = int(octal, 8) if octal else int(x or big_x or u or big_u, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise CelError(source, [source.issue(at, "invalid unicode code point")])
    return chr(code)


def _unescape_bytes(source: Source, body: str, at: int) -> bytes:
    parts, last = [], 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[last : match.start()].encode())
        _, x, big_x, u, big_u, octal, _ = match.groups()
        if u or big_u:
            raise CelError(source, [source.issue(at, "unable to unescape string")])
        if x or big_x or octal:
            parts.append(bytes([int(octal, 8) if octal else int(x or big_x, 16)]))
        else:
            parts.append(_unescaped(source, match, at).encode())
        last = match.end()
    parts.append(body[last:].encode())
    return b"".join(parts)
