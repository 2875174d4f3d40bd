"""Bodies: bytes, text, or what JSON can say; never anything that would be executed. Pure."""

from __future__ import annotations

import json
from typing import Any

from limiters._support.validation import UNSHOWN, ArgumentError

MOST_BYTES = 262_144
"""How long a body may be. A larger one belongs elsewhere, and its address here."""

BYTES, TEXT, JSON = b"b", b"s", b"j"


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
    if len(stored) > MOST_BYTES + 1:
        raise ArgumentError(
            "body",
            UNSHOWN,
            f"be at most {MOST_BYTES} bytes, not {len(stored) - 1}",
            "keep it elsewhere, and put its address here",
        )
    return stored


def decoded(stored: bytes) -> Any:
    """The body as it was given; tuples come back as lists, and other keys as texts."""
    kind, body = stored[:1], stored[1:]
    if kind == TEXT:
        return body.decode("utf-8", "surrogatepass")
    if kind == JSON:
        return json.loads(body)
    return body
