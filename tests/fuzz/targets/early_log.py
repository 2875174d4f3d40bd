"""Files of early messages that were damaged: messages before the first damaged one come out as they
were, and no others do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from dispatcher.registration import EarlyMessageLog
from tests.fuzz.inputs import Input, of_blob, scratch

TEXTS = ["1", '{"dict":[]}', "x" * 40, "4"]


def check(data: bytes) -> None:
    given = Input(data)
    with (
        scratch() as folder,
        closing(
            EarlyMessageLog(folder, max_bytes=400, max_age=60, max_bytes_per_entity=200)
        ) as log,
    ):
        kept = TEXTS[: given.byte() % 5]
        for text in kept:
            log.append("meter", text, 0.0)
        for path in Path(folder).rglob("*.early"):
            whole = path.read_bytes()
            damaged = bytearray(whole)
            for _ in range(given.byte() % 4):
                at = int.from_bytes(given.take(2), "little") % len(whole)
                piece = given.blob()
                damaged[at : at + len(piece)] = piece
            path.write_bytes(damaged)
            unhurt = next(
                (at for at, one in enumerate(whole) if damaged[at : at + 1] != bytes([one])), -1
            )
            kept = kept if unhurt < 0 else _before(kept, unhurt)
        while given.has_more:
            log.append(
                given.choice(("meter", "other")), given.blob().decode(errors="replace") or "0", 1
            )
            assert log.size <= 400
        found = log.take("meter")
        if not log.displaced:
            assert found[: len(kept)] == kept
        log.take("other")
        assert log.size == 0


def _before(texts: list[str], place: int) -> list[str]:
    """Return the texts that end before `place`."""
    end = 0
    for number, text in enumerate(texts):
        end += 8 + len(text)
        if end > place:
            return texts[:number]
    return texts


def seeds() -> Iterator[bytes]:
    yield b"\4\0"
    yield b"\4\1\x0a\0" + of_blob(b"\0" * 8)
    yield b"\3\2\xff\0" + of_blob(b"\0") + b"\0\0" + of_blob(b"1") + b"\0" + of_blob("y" * 90) * 2
    yield b"\2\0" + (b"\1" + of_blob("z" * 100)) * 4
