"""Records of entities and messages that a gate stores, in a file or in Redis, and replies of its
scripts: they are refused with UnreadableError, or the original comes back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime

from dispatcher.registration._model import written
from dispatcher.registration._model.reports import CORRUPT
from dispatcher.registration._model.written import UnreadableError
from dispatcher.registration._redis.replies import Piece, read
from limiters._support.validation import ArgumentError
from tests.fuzz.inputs import Input, of_blob


def check(data: bytes) -> None:
    given = Input(data)
    entity = given.text()
    text = given.blob().decode(errors="replace")
    with contextlib.suppress(UnreadableError):
        found = written.registration_of(entity, text)
        with contextlib.suppress(ArgumentError):  # too deep: another program wrote it
            record = written.record_of(found.parent, found.data)
            again = written.registration_of(entity, record)
            assert written.record_of(again.parent, again.data) == record
    with contextlib.suppress(UnreadableError):
        message = written.message_of(text)
        with contextlib.suppress(ArgumentError):
            sealed = written.sealed_text_of("meter", message)
            assert repr(written.sealed_message_of("meter", sealed)) == repr(message)
    answer = []
    while given.has_more:
        answer.append(given.blob())
    with contextlib.suppress(UnreadableError):
        reply = read(answer)
        for piece in [*reply.free, *(piece for it in reply.portions for piece in it.pieces)]:
            _judge(piece)


def _judge(piece: Piece) -> None:
    release, reports = piece.opened()
    assert len(release.messages) <= len(piece.texts)
    assert all(min(it[2:5]) >= 0 for it in reports if it.name == CORRUPT)


def seeds() -> Iterator[bytes]:
    deep = {"a": [1, (2.5, b"\0", None)], "at": datetime(2026, 5, 1, 2, fold=1), 7: float("inf")}
    record = written.record_of("house", deep)
    sealed = written.sealed_text_of("meter", deep)
    numbers = [b"3", b"4", b"5", b"agenda", b"", b"ok", b"1", b"gone"]
    links = [b"links", json.dumps(["meter", "house"]).encode()]
    release = [b"release", b"meter", record.encode(), b"1", b"0", b"1"]
    rest = [b"messages", b"t", b"1", sealed.encode(), b"done", b"taken", b"1"]
    report = [b"report", b"displaced", b"meter", b"0", b"0", b"1", b""]
    answer = [*numbers, *links, *report, b"portion", *release, *rest, b"wrong", b"2"]
    for text, parts in ((record, answer), (written.text_of(deep), numbers)):
        yield b"".join([of_blob("meter"), of_blob(text), *map(of_blob, parts)])
