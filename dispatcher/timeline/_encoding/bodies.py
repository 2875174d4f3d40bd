"""Message bodies: bytes, text, or JSON values; never anything that would be executed. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from limiters._support.validation import UNSHOWN, ArgumentError

MOST_BYTES = 262_144
"""Maximum length of a body. Store a larger one elsewhere, and its address here."""

DEEPEST = 100
"""Maximum nesting of lists and objects. Python parses JSON by recursion, and how deep it can go
depends on the reading program; a producer must not be able to write what a consumer cannot read."""

BYTES, TEXT, JSON = b"b", b"s", b"j"

_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')


class UnreadableBody(bytes):
    """A stored body that cannot be decoded; `reason` says why. Its message is moved to the dead
    letters instead of being leased."""

    reason: str = ""


def encoded(body: Any) -> bytes:
    """Return the body as it is stored: a byte for its kind, then its content. ValueError names what
    is wrong with it.

    >>> encoded("héllo"), encoded([1, None])
    (b'sh\\xc3\\xa9llo', b'j[1,null]')
    """
    if isinstance(body, bytes):
        stored = BYTES + body
    elif isinstance(body, str):
        stored = TEXT + body.encode("utf-8", "surrogatepass")
    elif isinstance(body, (bytearray, memoryview)):
        stored = BYTES + bytes(body)
    else:
        try:
            stored = JSON + json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            kind = type(body).__name__
            raise ArgumentError(
                "body", UNSHOWN, f"be bytes, a str, or what JSON can say, not a {kind}: {error}"
            ) from None
        if _too_deep(stored):
            requirement = f"be at most {DEEPEST} lists and objects deep"
            raise ArgumentError("body", UNSHOWN, requirement)
    if len(stored) > MOST_BYTES + 1:
        raise ArgumentError(
            "body",
            UNSHOWN,
            f"be at most {MOST_BYTES} bytes, not {len(stored) - 1}",
            "keep it elsewhere, and put its address here",
        )
    return stored


def decoded(stored: bytes) -> Any:
    """Return the body that was encoded; tuples come back as lists, and keys that are not texts as
    texts. UnreadableBody for a body that another program has written and that cannot be decoded."""
    kind, body = stored[:1], stored[1:]
    try:
        if kind == TEXT:
            return body.decode("utf-8", "surrogatepass")
        if kind == JSON:
            return json.loads(body)
    except (ValueError, RecursionError) as error:
        return _unreadable(body, f"{type(error).__name__}: {error}")
    return body if kind == BYTES else _unreadable(stored, f"it is of no known kind: {kind!r}")


def _unreadable(stored: bytes, why: str) -> UnreadableBody:
    unreadable = UnreadableBody(stored)
    unreadable.reason = f"its body cannot be read: {why}"
    return unreadable


def _too_deep(text: bytes) -> bool:
    """Whether a JSON text nests more lists and objects than DEEPEST.

    >>> _too_deep(b"[" * 101 + b"]" * 101), _too_deep(b'["' + b"[" * 101 + b'"]')
    (True, False)
    """
    if text.count(b"[") + text.count(b"{") <= DEEPEST:  # true for nearly all texts
        return False
    depth = 0
    for letter in _QUOTED.sub(b"", text):
        depth += (letter in b"[{") - (letter in b"]}")
        if depth > DEEPEST:
            return True
    return False
