"""Parse and print times and durations. Pure."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime

from limiters._support.durations import EXAMPLES, read_seconds

TIMES = "now, +5m, -2h, 2026-05-01T08:00 (of this machine's time zone), or epoch milliseconds"

LONGER = ((172_800, 86_400, "days"), (7_200, 3_600, "h"), (120, 60, "min"))

MILLENNIUM = 1000 * 365.25 * 86_400
"""Longer durations are not shown exactly."""


def duration(seconds: float) -> str:
    """Return a measured duration in words.

    >>> duration(0.4), duration(75), duration(300), duration(7_200), duration(200_000)
    ('0.4 s', '75 s', '5 min', '2 h', '2 days')
    >>> duration(1e6 * 86_400), duration(1e200), duration(float("inf"))
    ('1,000+ years', '1,000+ years', '1,000+ years')
    """
    if seconds > MILLENNIUM:
        return "1,000+ years"
    for least, unit, name in LONGER:
        if seconds >= least:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class When:
    """A time: `ms` milliseconds from now, or since the epoch."""

    ms: int
    relative: bool

    def at(self, now_ms: float) -> int:
        """Return the time in epoch milliseconds."""
        return round(now_ms) + self.ms if self.relative else self.ms


def seconds_of(text: str) -> float:
    """Parse a duration into seconds.

    >>> seconds_of("1h30m"), seconds_of("0.5"), seconds_of("250ms")
    (5400.0, 0.5, 0.25)
    """
    found = read_seconds(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"a duration is written like {EXAMPLES}")
    if found > MILLENNIUM:  # 400 digits are infinitely many seconds
        raise argparse.ArgumentTypeError("a duration is at most 1,000 years")
    return found


def when_of(text: str) -> When:
    """Parse a time that a user has written.

    >>> when_of("+5m"), when_of("1800000000000"), when_of("2026-05-01T08:00Z").ms
    (When(ms=300000, relative=True), When(ms=1800000000000, relative=False), 1777622400000)
    """
    if text == "now":
        return When(0, relative=True)
    if text[:1] in ("+", "-"):
        sign = -1 if text[0] == "-" else 1
        return When(sign * round(seconds_of(text[1:]) * 1000), relative=True)
    if text.isdecimal():
        if len(text) != 13:
            raise argparse.ArgumentTypeError("epoch milliseconds have 13 digits")
        return When(int(text), relative=False)
    try:
        seconds = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):  # the first and the last years are not in every time zone
        raise argparse.ArgumentTypeError(f"a time is written like {TIMES}") from None
    return When(round(seconds * 1000), relative=False)


def shown(at_ms: float) -> str:
    """Return a time in this machine's time zone. One beyond Python's calendar is shown in
    milliseconds.

    >>> shown(253_402_400_000_000)
    '253402400000000 ms'
    """
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    except (ValueError, OverflowError):
        return f"{at_ms:.0f} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S")


def from_now(at_ms: float, now_ms: float) -> str:
    """Return the distance of a time from now.

    >>> from_now(5_000, 0), from_now(0, 7_200_000), from_now(1, 1)
    ('in 5.0 s', '2 h ago', 'now')
    """
    if round(at_ms) == round(now_ms):
        return "now"
    ahead = (at_ms - now_ms) / 1000
    return f"in {duration(ahead)}" if ahead > 0 else f"{duration(-ahead)} ago"
