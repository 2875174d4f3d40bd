"""Notes on the channel of a topic, and packed answers about messages whose stored parts another
program has written."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from dispatcher.timeline._leasing.holding import leases_of
from dispatcher.timeline._leasing.wakeups import busy, heard_in
from dispatcher.timeline._reading.scanning import told
from tests.fuzz.inputs import Input, of_blob


def check(data: bytes) -> None:
    given = Input(data)
    note = heard_in(given.blob())
    if note is not None and not isinstance(note[1], bool):
        assert math.isfinite(note[1])
    name, stored, why = given.blob(), given.blob(), given.blob()
    lengths = struct.pack("<IIH", len(name), len(stored), len(why))
    code = struct.pack("<BBdII", 1, given.byte() % 5 + 1, 1.8e12, 1, 2)
    texts = lengths + name + stored + why
    first, second = told(3, code * 2, texts * 2)
    assert repr(first) == repr(second)
    assert first._place is not None
    assert first._place[1] == name
    blob = struct.pack("<ddIIII", 1.8e12, 7, 1, 1, len(name), len(stored)) + name + stored
    one, other = leases_of(3, blob * 2, [5, 6], [0.5, 0.6])
    assert (one.id, one._place) == (other.id, other._place)
    assert repr(one.body) == repr(other.body)


def seeds() -> Iterator[bytes]:
    for stored in (b"\2ussbody", b"\2usj[1]", b"", b"\xff"):
        yield of_blob(b"3 1800000000000") + of_blob(b"id") + of_blob(stored) + of_blob(b"why")
    yield of_blob(busy(b"worker 1")) + of_blob(b"\xff") + of_blob(b"\5") + of_blob(b"\xed\xa0\x80")
