"""Bodies: bytes, text, or what JSON can say; never anything that would be executed. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from limiters._support.validation import UNSHOWN, ArgumentError

MOST_BYTES = 262_144
"""How long a body may be. A larger one belongs elsewhere, and its address here."""

DEEPEST = 100
"""How many lists and objects may be inside each other. Python reads JSON by recursion: how deep it
can go depends on who reads, and whoever creates must not be able to go deeper."""

BYTES, TEXT, JSON = b"b", b"s", b"j"

_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')


class UnreadableBody(bytes):
    """A body as it is stored, which cannot be read; `reason` says why. Consumers are not given its
    message, which becomes dead."""

    reason: str = ""


def encoded(body: Any) -> bytes:
    """The body's kind, and the body. ValueError says what is wrong with it.

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
    """The body as it was given; tuples come back as lists, and other keys as texts. UnreadableBody
    for what another program may have written, and this one cannot read."""
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
    """Whether more lists and objects of a JSON text are inside each other than may be.

    >>> _too_deep(b"[" * 101 + b"]" * 101), _too_deep(b'["' + b"[" * 101 + b'"]')
    (True, False)
    """
    if text.count(b"[") + text.count(b"{") <= DEEPEST:  # so it is for nearly all
        return False
    depth = 0
    for letter in _QUOTED.sub(b"", text):
        depth += (letter in b"[{") - (letter in b"]}")
        if depth > DEEPEST:
            return True
    return False
