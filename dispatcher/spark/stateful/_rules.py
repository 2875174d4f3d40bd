"""Which builder: the spans that a user gives, in the units of the columns they are held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dispatcher.builders import EventTimeBuilder
from dispatcher.spark.stateful._columns import MICROSECONDS, TimeColumn
from dispatcher.spark.stateful._options import EventTimeOptions
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, seconds

Row = int
"""What the builder is given in place of a message: which row it is."""
_LONGEST = 2**63 - 1
"""In microseconds: more than Spark's timestamps span. Its timeouts overflow not far beyond."""


@dataclass(frozen=True)
class Rule:
    """Which builder: what it is made of, in the units of the columns."""

    spans: tuple[float, ...]
    by_event_time: bool
    duplicate_memory: float | None

    def builder(self, fields: Mapping[str, Callable[[Row], Any]]) -> EventTimeBuilder[Row]:
        """A new one. `fields` say how it finds out the key and the event time of a row."""
        if self.by_event_time:
            jitter, delivery, leap = self.spans
            return EventTimeBuilder.by_event_time(jitter, delivery, leap, **fields)
        window, timeout = self.spans
        return EventTimeBuilder(window, timeout, duplicate_memory=self.duplicate_memory, **fields)


def rule_of(time: TimeColumn, arrival: TimeColumn | None, options: EventTimeOptions) -> Rule:
    window, timeout, rule = options.window, options.timeout, options.rule
    ticks = MICROSECONDS if arrival is None else arrival.unit
    if rule is None:
        if window is None or timeout is None:
            missing, other = ("window", "timeout") if window is None else ("timeout", "window")
            raise ArgumentError(missing, None, f"be given, and so must {other}, or rule")
        spans = (_width(time, "window", window), _span("timeout", timeout, ticks))
        memory = _memory(window, timeout, options.duplicate_memory, ticks)
        return Rule(spans, by_event_time=False, duplicate_memory=memory)
    if window is not None or timeout is not None or options.duplicate_memory is not None:
        requirement = "stand in place of window, timeout and duplicate_memory"
        raise ArgumentError("rule", UNSHOWN, requirement, "leave these out, or it")
    _check_one_clock(time, arrival)
    return Rule(
        (
            _width(time, "event_jitter", rule.event_jitter),
            _span("delivery_jitter", rule.delivery_jitter, ticks),
            _span("message_leap_limit", rule.message_leap_limit, ticks),
        ),
        by_event_time=True,
        duplicate_memory=None,
    )


def _memory(window: Seconds, timeout: Seconds, memory: Seconds | None, ticks: int) -> float:
    """How long duplicates are known, in the unit of arrivals.

    The builder's own default would add the two spans as this step hands them over, and they may
    be counted in different units: numbers of the time column, and microseconds of a clock.
    """
    if memory is not None:
        return _span("duplicate_memory", memory, ticks)
    return _span("window", window, ticks) + _span("timeout", timeout, ticks)


def _check_one_clock(time: TimeColumn, arrival: TimeColumn | None) -> None:
    """The other rule compares event times with arrivals."""
    told = pa.timestamp("us", "UTC") if arrival is None else arrival.type
    if time.is_clock != pa.types.is_timestamp(told) or (time.is_clock and time.type != told):
        by = "the processing time, a timestamp" if arrival is None else f"arrival, a {told}"
        raise ArgumentError(
            "time",
            time.name,
            f"be a column of the same type as {by}",
            f"rule=ByEventTime compares them, and it is a {time.type}",
        )


def _width(time: TimeColumn, parameter: str, value: Seconds) -> float:
    width = _span(parameter, value, time.unit)
    # Between whole numbers a part of one is as good as nothing.
    return int(width) if time.is_whole else width


def _span(parameter: str, value: Seconds, unit: int) -> float:
    span = seconds(parameter, value, zero=True)
    return span if unit == 1 else round(min(span * unit, _LONGEST))
