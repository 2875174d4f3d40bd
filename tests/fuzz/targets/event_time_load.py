"""A saved EventTimeBuilder: it is refused with ArgumentError, or the loaded builder saves itself in
the same way, gathers the next messages and returns those that it has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from dispatcher.builders import EventTimeBuilder
from dispatcher.builders.errors import MeasurementError
from limiters._support.validation import ArgumentError

FIELDS: dict[str, Any] = {"key": itemgetter(0), "event_time": itemgetter(1)}


def check(data: bytes) -> None:
    try:
        builder: EventTimeBuilder[Any] = EventTimeBuilder.load(data, **FIELDS)
    except ArgumentError:
        return
    saved = builder.dump()
    again: EventTimeBuilder[Any] = EventTimeBuilder.load(saved, **FIELDS)
    assert again.dump() == saved
    assert (again.duplicates, again.dropped) == (builder.duplicates, builder.dropped)
    for now in (1e6, datetime(2026, 5, 1, tzinfo=UTC)):
        try:
            builder.add(["new", now], now)
            again.add(["new", now], now)
        # the times are of another type than the saved ones
        except (ArgumentError, MeasurementError):
            continue
    found = [(it.start, it.end, it.messages) for it in builder.flush()]
    assert repr(found) == repr([(it.start, it.end, it.messages) for it in again.flush()])
    assert all(start <= end and messages for start, end, messages in found)


def seeds() -> Iterator[bytes]:
    builder: EventTimeBuilder[Any] = EventTimeBuilder(50, 100, **FIELDS)
    yield builder.dump()
    for key, at in (("a", 100), ("b", 145), ("a", 120.5), (("c", b"\0", 2**70), 300)):
        builder.add((key, at), now=at + 1)
    yield builder.dump()
    ordered: EventTimeBuilder[Any] = EventTimeBuilder.by_event_time(50, 20, 0, **FIELDS)
    day = datetime(2026, 5, 1, tzinfo=UTC)
    ordered.add(["a", day], now=day)
    yield ordered.dump()
    yield (
        b'{"format":"dispatcher.builders/1","state":{"dict":[["rule","timeout"],["spans",[5,5]],'
        b'["memory",9],["now",7],["kind","number"],["duplicates",0],["dropped",0],'
        b'["open",[[1,6,false,[[7,["a",1]]]]]],["closed",[[9,[["b",2]]]]]]}}'
    )
