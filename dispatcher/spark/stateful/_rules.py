"""The rule of a builder: the spans that a user gives, in the units of the columns."""

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
"""The place of a row, which the builder is given in place of a message."""
_LONGEST = 2**63 - 1
"""The longest span in microseconds, longer than the range of Spark's timestamps. Timeouts of Spark
would overflow with slightly longer ones."""


@dataclass(frozen=True)
class Rule:
    """The arguments of a builder, in the units of the columns."""

    spans: tuple[float, ...]
    by_event_time: bool
    duplicate_memory: float | None

    def builder(self, fields: Mapping[str, Callable[[Row], Any]]) -> EventTimeBuilder[Row]:
        """Return a new builder. `fields` are the functions that return the key and the event time
        of a row."""
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
    """Return how long duplicates are recognised, in the unit of arrivals.

    The builder's own default would add the two spans as this step passes them, and they may have
    different units: that of the time column, and microseconds.
    """
    if memory is not None:
        return _span("duplicate_memory", memory, ticks)
    return _span("window", window, ticks) + _span("timeout", timeout, ticks)


def _check_one_clock(time: TimeColumn, arrival: TimeColumn | None) -> None:
    """Refuse columns of different types for the rule that compares event times with arrivals."""
    other = pa.timestamp("us", "UTC") if arrival is None else arrival.type
    if time.is_clock != pa.types.is_timestamp(other) or (time.is_clock and time.type != other):
        by = "the processing time, a timestamp" if arrival is None else f"arrival, a {other}"
        raise ArgumentError(
            "time",
            time.name,
            f"be a column of the same type as {by}",
            f"rule=ByEventTime compares them, and it is a {time.type}",
        )


def _width(time: TimeColumn, parameter: str, value: Seconds) -> float:
    width = _span(parameter, value, time.unit)
    # Whole numbers never differ by a fraction, so it can be dropped.
    return int(width) if time.is_whole else width


def _span(parameter: str, value: Seconds, unit: int) -> float:
    span = seconds(parameter, value, zero=True)
    return span if unit == 1 else round(min(span * unit, _LONGEST))
