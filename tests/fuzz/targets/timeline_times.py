"""Times and durations as people and producers write them: they are refused with the documented
error, or are whole milliseconds that can be shown."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from dispatcher.cli._text.moments import duration, from_now, seconds_of, shown, when_of
from dispatcher.timeline._encoding.times import LATEST, epoch_ms, when
from limiters._support.validation import ArgumentError
from tests.fuzz.inputs import Input, of_blob, of_number


def check(data: bytes) -> None:
    given = Input(data)
    text, number = given.text(), given.number()
    with contextlib.suppress(argparse.ArgumentTypeError):
        assert duration(seconds_of(text))
    with contextlib.suppress(argparse.ArgumentTypeError):
        at = when_of(text)
        assert shown(at.at(1.8e12))
        assert from_now(at.at(1.8e12), 1.8e12)
    with contextlib.suppress(ArgumentError):
        assert abs(epoch_ms("at", number)) <= LATEST
    with contextlib.suppress(ArgumentError):
        relative, ms = when(None, number)
        assert relative
        assert ms >= 0
    day = datetime(1, 1, 1, tzinfo=UTC) + timedelta(seconds=int.from_bytes(given.take(4)) * 70)
    assert isinstance(epoch_ms("at", day), int)


def seeds() -> Iterator[bytes]:
    for text in (
        "now",
        "+5m",
        "-1h30m",
        "250ms",
        "1800000000000",
        "2026-05-01T08:00",
        "0.5",
        "9" * 50,
    ):
        yield of_blob(text) + of_number(1.8e12)
    yield of_blob("2026-05-01T08:00:00.123456+02:00") + of_number(0.25)
    yield of_blob("0001-01-01") + b"\3" + b"\xff" * 8
