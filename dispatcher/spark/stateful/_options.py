"""The options of the stateful steps. Each field is a keyword of its step, and a line of its
docs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from dispatcher.spark._usable_columns import column_name
from dispatcher.spark.stateful._columns import Invalid
from limiters._support.options import CheckedOptions, about
from limiters._support.validation import Seconds, flag, instance_of, one_of, seconds, text

_span = partial(seconds, zero=True)


@dataclass(frozen=True)
class ByEventTime:
    """The closing rule of `EventTimeBuilder.by_event_time`."""

    event_jitter: Seconds
    delivery_jitter: Seconds
    message_leap_limit: Seconds


@dataclass(frozen=True, kw_only=True)
class StepOptions(CheckedOptions):
    """Options of all stateful steps."""

    subject: str = field(
        metadata=about("the name of the column that says whose a row is", column_name)
    )
    time: str = field(
        metadata=about(
            "the name of the column that says when it was: a timestamp, or numbers that can be "
            "ordered",
            column_name,
        )
    )
    invalid: Invalid = field(
        default="error",
        metadata=about(
            'what a null or NaN in a column that is needed does: "error", or "drop"',
            one_of("error", "drop"),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class EventTimeOptions(StepOptions):
    """Options of `event_time_batches` alone."""

    key: str = field(
        metadata=about("the name of the column that says what was measured", column_name)
    )
    window: Seconds | None = field(
        default=None,
        metadata=about(
            "how far the times of a batch may lie apart: seconds or a timedelta, or, where `time` "
            "holds numbers, in their unit",
            _span,
        ),
    )
    timeout: Seconds | None = field(
        default=None,
        metadata=about(
            "how long a batch stays open: seconds or a timedelta, or, where `arrival` holds "
            "numbers, in their unit",
            _span,
        ),
    )
    rule: ByEventTime | None = field(
        default=None,
        metadata=about(
            "a ByEventTime(...) in place of `window` and `timeout`", instance_of(ByEventTime)
        ),
    )
    arrival: str | None = field(
        default=None,
        metadata=about(
            "the name of the column of arrivals. Without one, the rows of a micro-batch arrive "
            "together, when it begins, and are taken in order of (time, key)",
            column_name,
        ),
    )
    arrival_slack: Seconds | None = field(
        default=None,
        metadata=about(
            "how far the arrivals of one subject may be behind those of another. With it, batches "
            "close when the latest arrival of any subject, less this, has passed their time; "
            "without, only when the subject's own next row comes",
            _span,
            unit="s",
        ),
    )
    duplicate_memory: Seconds | None = field(
        default=None,
        metadata=about(
            "how long after its batch closed a row is still recognized when it is delivered again: "
            "in seconds, or in the unit of `arrival` where that holds numbers. By default the sum "
            "of `window` and `timeout` as you give them; set it where `time` is counted in another "
            "unit than that, such as milliseconds",
            _span,
        ),
    )
    timers: bool = field(
        default=True,
        metadata=about(
            "without `arrival`, whether batches close when no row comes. A query with timers never "
            "ends by `availableNow`",
            flag,
        ),
    )
    name: str = field(
        default="event_time_batches",
        metadata=about(
            "of the counts in each progress report's observed metrics: `batches`, `messages`, "
            "`duplicates`, `dropped`, `invalid`",
            text,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class HoldBackOptions(StepOptions):
    """Options of `hold_back` alone."""

    delay: Seconds = field(
        metadata=about(
            "for how long, in processing time: so rows come out on time when none follow, and "
            "however old what a back-fill reads is, it waits no longer",
            _span,
            unit="s",
        )
    )
    forget_after: Seconds | None = field(
        default=None,
        metadata=about(
            "for how long the latest time that was released is stored for a subject without new "
            "rows. By default for as long as the checkpoint: some 100 bytes a subject",
            seconds,
            unit="s",
        ),
    )
    name: str = field(
        default="hold_back",
        metadata=about(
            "of the counts in each progress report's observed metrics: `released`, `late`, "
            "`invalid`",
            text,
        ),
    )
