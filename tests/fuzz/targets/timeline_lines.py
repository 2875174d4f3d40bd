"""Lines that `timeline create` reads: each is a message, or is reported as wrong, and none disturbs
another; a message can be stored, or is refused."""

from __future__ import annotations

import io
from collections.abc import Iterator

from dispatcher.cli._commands.timeline.incoming import from_lines
from dispatcher.timeline import Message
from dispatcher.timeline._encoding import bodies, ids, times
from limiters._support.validation import ArgumentError

GOOD = '{"body": "good"}'


def check(data: bytes) -> None:
    text = io.TextIOWrapper(io.BytesIO(data), "utf-8", errors="surrogateescape").read()
    lines = [*text.splitlines(keepends=True), GOOD]
    found = dict(from_lines(lines))
    assert isinstance(found[len(lines)], Message)
    assert set(found) == {number for number, line in enumerate(lines, 1) if line.strip()}
    for it in found.values():
        if isinstance(it, str):
            assert it
            continue
        try:
            times.when(it.at, it.delay)
            stored = bodies.encoded(it.body)
            assert len(stored) <= bodies.MOST_BYTES + 1
            assert not isinstance(bodies.decoded(stored), bodies.UnreadableBody)
            ids.bucket_of(it.id if it.id is not None else "x", 64)
        except ArgumentError as error:
            assert str(error)


def seeds() -> Iterator[bytes]:
    yield b'{"body": {"user": 7}, "id": "a", "at": "2026-05-01T08:00Z"}\n\n{"body": 1}'
    yield b'{"body_base64": "aGVsbG8=", "delay": "1h30m"}\nno json\n{"body": null, "at": "now"}'
    yield b'{"body": "\\ud800", "at": "+5m"}\n[1]\n{"body": 1, "id": 2}\xff\n' + b"[" * 2_000
