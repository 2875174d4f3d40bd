"""Bodies, ids and owners in Redis: any bytes can be read, and what was given comes back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._encoding.bodies import UnreadableBody, decoded, encoded
from dispatcher.timeline._server.topic import body_of, owner_length
from limiters._support.validation import ArgumentError


def check(data: bytes) -> None:
    body = body_of(data)
    assert owner_length(data) <= 255
    if isinstance(body, UnreadableBody):
        assert body.reason
    else:
        # A body that can be read can be created again, unless another program wrote a value that
        # only JSON has.
        with contextlib.suppress(ArgumentError):
            again = decoded(encoded(body))
            assert repr(again) == repr(body)
    assert decoded(encoded(data)) == data
    text = ids.as_text(data)
    with contextlib.suppress(UnicodeDecodeError):
        data.decode("utf-8", "surrogatepass")
        assert ids.as_bytes(text) == data
        assert decoded(encoded(text)) == text
    try:
        assert 0 <= ids.bucket_of(text, 64) < 64
    except ArgumentError as error:
        assert str(error)


def seeds() -> Iterator[bytes]:
    for body in (b"\0bytes", "text", [1, None, {"a": "é", "b": [1.5, True]}], 2**70):
        yield b"\2us" + encoded(body)
    yield ids.generated(17, 1_790_000_000_000, 1)[0].encode()
    yield b"\0j" + json.dumps("\ud800").encode()
