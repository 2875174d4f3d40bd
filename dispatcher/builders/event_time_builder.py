"""EventTimeBuilder: batches of messages that were generated at about the same time."""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

from dispatcher.builders._fields import MeasurementField, Where, check_hashable
from dispatcher.builders._times import LARGEST, Instant, TimeKind, TimeSpan, mixed, read, read_all
from dispatcher.builders._windows import saved
from dispatcher.builders._windows.bulk import plain_numbers
from dispatcher.builders._windows.closing import RULES, AfterEnd, AfterTimeout, ClosingRule
from dispatcher.builders._windows.duplicates import Duplicates
from dispatcher.builders._windows.in_order import WindowRun, are_in_order, runs
from dispatcher.builders._windows.windows import Window, Windows
from dispatcher.builders.errors import MeasurementError
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, flag, seconds

M = TypeVar("M")
_NUMBER = TimeKind.NUMBER
_NONE = object()
_DUE_AND_START = attrgetter("due", "start")

_SINCE_1970 = 10**8
"""A clock in seconds since 1970 shows more than this since 1973."""

_OTHER_UNIT = 50
"""A time that is this many times the present is not in seconds: it would be after the year 4000."""


@dataclass(slots=True)
class Batch(Generic[M]):
    """Messages in order of event time, and their window: from `start` to `end`. `end` itself is
    excluded from a window that was `shortened`, since the next one begins there, or began."""

    messages: list[M]
    start: Instant
    end: Instant
    shortened: bool = False


class EventTimeBuilder(Generic[M]):
    """Gathers messages that were generated within one `window`, beginning with the first that
    arrives, for at most `timeout` after its arrival.

    * `window`: how far the event times of a batch may lie apart, in the unit of the times; for
      datetimes in seconds, or a timedelta.
    * `timeout`: how long a batch stays open, in the unit of `now`; for datetimes in seconds, or a
      timedelta.
    * `key`: the kind of measurement of a message: a callable, or the name of an item or attribute.
      Two messages of one key and different times split their batch.
    * `event_time`: when a message was generated: a callable, or the name of an item or attribute. A
      number or a datetime.
    * `duplicate_memory`: for how long after its batch closed a message is remembered, so that a
      second delivery is recognized: in the unit of `now`. By default `window` + `timeout`; set it
      if event times are in another unit than `now`.

    `by_event_time` makes a builder with the other closing rule. No clock is read: `now` is an
    argument, a number or a datetime that need not be of the same kind as event times. An earlier
    `now` counts as the latest one seen. `duplicates` and `dropped` count the messages that were
    left out.

    A message that cannot be used raises MeasurementError, and leaves the builder as it was. Not
    thread-safe; `dispatcher.senders.EventTimeDriver` runs a builder in real time.

    >>> builder = EventTimeBuilder(50, 100, key="type", event_time="at")
    >>> builder.add({"type": "a", "at": 100}, now=110)
    []
    >>> builder.add({"type": "b", "at": 145}, now=150)
    []
    >>> builder.deadline
    210
    >>> [batch.messages for batch in builder.advance(now=210)]
    [[{'type': 'a', 'at': 100}, {'type': 'b', 'at': 145}]]
    """

    def __init__(
        self,
        window: Seconds,
        timeout: Seconds,
        *,
        key: Where,
        event_time: Where,
        duplicate_memory: Seconds | None = None,
    ) -> None:
        rule = AfterTimeout(_span("window", window), _span("timeout", timeout))
        if duplicate_memory is not None:
            rule.memory = TimeSpan(_span("duplicate_memory", duplicate_memory))
        self._begin(rule, key, event_time)

    @classmethod
    def by_event_time(
        cls,
        event_jitter: Seconds,
        delivery_jitter: Seconds,
        message_leap_limit: Seconds,
        *,
        key: Where,
        event_time: Where,
    ) -> EventTimeBuilder[M]:
        """Return a builder whose batches end by event time alone.

        A batch gathers messages that were generated within `event_jitter` of its first message, and
        closes when `now` is `delivery_jitter` past the end of that. A message older than that
        jitter, or further ahead than `message_leap_limit`, is dropped and counted. Two messages of
        one key split their batch in the middle between them. Here `now` must be from the same clock
        as event times.

        >>> builder = EventTimeBuilder.by_event_time(50, 20, 0, key="type", event_time="at")
        >>> builder.add({"type": "a", "at": 100}, now=105)
        []
        >>> builder.deadline
        170
        """
        builder = cls.__new__(cls)
        builder._begin(
            AfterEnd(
                _span("event_jitter", event_jitter),
                _span("delivery_jitter", delivery_jitter),
                _span("message_leap_limit", message_leap_limit),
            ),
            key,
            event_time,
        )
        return builder

    def _begin(self, rule: ClosingRule, key: object, event_time: object) -> None:
        self._rule = rule
        self._strict = rule.compares_clocks
        self._key = MeasurementField("key", key)
        self._time = MeasurementField("event_time", event_time)
        self._kind: TimeKind | None = None
        self._now: Any = None
        self._now_kind: TimeKind | None = None
        self._windows = Windows()
        self._queue: list[tuple[Any, Any, int, Window]] = []
        """Windows by when they are due, then by their start. A window whose due time has changed is
        in the queue twice; the outdated entry is skipped."""
        self._ties = itertools.count()
        self._closed = Duplicates()
        self.duplicates = 0
        self.dropped = 0

    # Input and output.

    def add(self, message: M, now: Instant) -> list[Batch[M]]:
        """Add a message that arrived at `now`. Return the batches that are closed by then, by the
        time they were due, then by their start."""
        try:
            key, time = self._key.of(message), self._time.of(message)
        except Exception:  # asked again, for the error that names the problem
            key, time = self._key.value(message), self._time.value(message)
        # Numbers like those before need no further check.
        if not (
            self._kind is _NUMBER
            and self._now_kind is _NUMBER
            and (time.__class__ is float or time.__class__ is int)
            and (now.__class__ is float or now.__class__ is int)
            and -LARGEST <= time <= LARGEST
            and self._now <= now <= LARGEST
        ):
            time, kind = self._read_time(message, time)
            self._read_key(message, key)
            now = self._see(now, kind)
            self._kind = kind
        elif key.__class__ is not str and key.__class__ is not int:
            self._read_key(message, key)
        # From here on nothing is refused, and so the state may change.
        self._now = now
        queue, known = self._queue, self._closed
        closed: list[Batch[M]] = []
        if (queue and queue[0][0] <= now) or (known.batches and known.batches[0][0] < now):
            closed = self._close_due(now)
        if self._strict and self._rule.refuses(time, now):
            self.dropped += 1
        elif (key, time) in known.known:
            self.duplicates += 1
        else:
            self._place(self._windows.at(time), key, time, now, message)
            if self._strict:  # only then can a message make something due
                closed += self._close_due(now)
        return closed

    def add_many(self, messages: Sequence[M], nows: Sequence[Instant]) -> list[Batch[M]]:
        """As `add` for each message, with the time at which it arrived: the same batches in the
        same order, in less time where messages of one batch come one after the other. If one raises
        MeasurementError, those before it are added, and the batches that they closed are lost."""
        if len(messages) != len(nows):
            requirement = f"have one time for each of {len(messages)} messages"
            raise ArgumentError("nows", UNSHOWN, requirement, f"it has {len(nows)}")
        read = self._read_numbers(messages, nows)
        if read is not None:
            return self._add_numbers(messages, nows, *read)
        closed: list[Batch[M]] = []
        for message, now in zip(messages, nows, strict=True):
            closed += self.add(message, now)
        return closed

    def advance(self, now: Instant) -> list[Batch[M]]:
        """Return the batches that are closed by `now`. Whether and how often it is called changes
        no batch: a batch closes as of the time it was due."""
        return self._close_due(self._see(now, self._kind))

    def flush(self) -> list[Batch[M]]:
        """Close all batches, as of the latest `now`, and return them in the same order."""
        windows = sorted(self._windows, key=lambda window: (window.due, window.start))
        self._queue.clear()
        return [self._close(window, self._now) for window in windows]

    def check_unit(self, message: M, now: Instant) -> None:
        """Raise MeasurementError if the event time of a message looks like milliseconds, or smaller
        units, while `now` is in seconds since 1970. Checked only if both are compared, since all
        such messages would be dropped."""
        if not (self._strict and isinstance(now, (int, float)) and now >= _SINCE_1970):
            return
        time, kind = self._read_time(message, self._time.value(message))
        if kind is _NUMBER and time > now * _OTHER_UNIT:
            raise MeasurementError(
                message,
                f"its event_time {time!r} looks like milliseconds or less, but the clock is in "
                f"seconds, now {now!r}; hand in seconds since 1970",
            )

    @property
    def deadline(self) -> Instant | None:
        """When the next batch closes if no message arrives; None if no batch is open."""
        queue = self._queue
        while queue and queue[0][3].due != queue[0][0]:
            heapq.heappop(queue)
        return queue[0][0] if queue else None

    @property
    def remembers_until(self) -> Instant | None:
        """Until when messages of closed batches are remembered; None if none are. After that, and
        with no batch open, the builder has no state."""
        return max((until for until, _ in self._closed.batches), default=None)

    def __len__(self) -> int:
        """Number of open batches."""
        return len(self._windows)

    # Input of a message.

    def _read_key(self, message: M, key: Hashable) -> None:
        if key is None:
            raise MeasurementError(message, "its key is None")
        check_hashable(self._key, message, key)

    def _read_time(self, message: M, value: object) -> tuple[Any, TimeKind]:
        try:
            time, kind = read(value)
        except ArgumentError as error:
            raise MeasurementError(message, f"its {error.of('event_time')}") from None
        if wrong := mixed(kind, self._kind):
            raise MeasurementError(message, f"its event_time {value!r} {wrong}")
        return time, kind

    def _see(self, value: Instant, kind: TimeKind | None) -> Any:
        """Update `now`, which never goes back; `kind` is that of event times."""
        try:
            now, now_kind = read(value)
        except ArgumentError as error:
            raise error.of("now") from None
        if wrong := mixed(now_kind, self._now_kind):
            raise ArgumentError("now", value, "be a time of one kind", f"it {wrong}")
        if self._strict and (wrong := mixed(now_kind, kind)):
            requirement = "be a time of the same kind as event times"
            raise ArgumentError("now", value, requirement, f"it {wrong}")
        if self._now is None or now > self._now:
            self._now, self._now_kind = now, now_kind
        return self._now

    def _read_numbers(
        self, messages: Sequence[M], nows: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """The keys and times of all messages, if each of them may be added without a further look:
        times are numbers, `nows` never go back, and adding closes nothing by itself."""
        if self._strict or not nows:
            return None
        try:
            keys, times = list(map(self._key.of, messages)), list(map(self._time.of, messages))
        except Exception:  # `add` says what is wrong
            return None
        if self._kind not in (None, _NUMBER) or self._now_kind not in (None, _NUMBER):
            return None
        if not plain_numbers(keys, times, nows) or (self._now is not None and nows[0] < self._now):
            return None
        return keys, times

    def _add_numbers(
        self, messages: Sequence[M], nows: Sequence[Any], keys: Sequence[Any], times: Sequence[Any]
    ) -> list[Batch[M]]:
        """Add all: those that come in order of time batch by batch, others one by one."""
        self._kind = self._now_kind = _NUMBER
        if not are_in_order(times):
            return self._add_one_by_one(messages, nows, keys, times)
        closed = list[Batch[M]]()
        done = 0
        while done < len(times):
            # Up to here messages may belong to an open batch.
            after = bisect_right(times, self._windows.last_end, done)
            if after == done:
                done = self._add_runs(messages, nows, keys, times, done, closed)
                if done == len(times):
                    break
                after = bisect_right(times, self._rule.window.after(times[done]), done)
            closed += self._add_one_by_one(
                *(one[done:after] for one in (messages, nows, keys, times))
            )
            done = after
        return closed

    def _add_runs(
        self,
        messages: Sequence[M],
        nows: Sequence[Any],
        keys: Sequence[Any],
        times: Sequence[Any],
        begin: int,
        closed: list[Batch[M]],
    ) -> int:
        """Add messages from `begin` on, all later than those of open batches, as far as they are
        plain runs; where they end. What is closed by then goes to `closed`."""
        rule, known, queue = self._rule, self._closed, self._queue
        found = list(
            runs(
                keys,
                times,
                nows,
                begin,
                end_of=rule.window.after,
                due_of=rule.due_of,
                known=known.known,
            )
        )
        if not found:
            return begin
        now = self._now = nows[found[-1].until - 1]
        ending: list[Window | WindowRun] = []
        while queue and queue[0][0] <= now:
            due, _, _, window = heapq.heappop(queue)
            if window.due == due:
                ending.append(window)
        in_turn = not ending  # runs are, among themselves
        ending += [run for run in found if run.due <= now]
        if not in_turn:
            ending.sort(key=_DUE_AND_START)
        for it in ending:
            if isinstance(it, Window):
                closed.append(self._close(it, it.due))
                continue
            closed.append(Batch(list(messages[it.begin : it.until]), it.start, it.end))
            until = rule.memory.after(it.due)
            if known.batches:
                known.forget(now)
            if known.batches or until >= now:  # else it would be forgotten below
                place = slice(it.begin, it.until)
                known.remember(list(zip(keys[place], times[place], strict=True)), until)
        known.forget(now)
        for run in found:
            if run.due > now:
                place = slice(run.begin, run.until)
                window = Window(run.start, run.end)
                window.times = dict(zip(keys[place], times[place], strict=True))
                window.arrivals, window.messages = list(nows[place]), list(messages[place])
                self._open(window)
        return found[-1].until

    def _add_one_by_one(
        self, messages: Sequence[M], nows: Sequence[Any], keys: Sequence[Any], times: Sequence[Any]
    ) -> list[Batch[M]]:
        """Add all in one loop: most messages only join the batch of the one before."""
        known, closed = self._closed, list[Batch[M]]()
        window: Window | None = None
        due, forgets = self._next_event()
        for message, now, key, time in zip(messages, nows, keys, times, strict=True):
            self._now = now
            if now >= due or now > forgets:
                closed += self._close_due(now)
                due, forgets = self._next_event()
                if window is not None and window.due is None:  # it was closed
                    window = None
            if (key, time) in known.known:
                self.duplicates += 1
                continue
            # The first comparison nearly always holds; `covers` includes the end as well.
            if window is None or not (window.start <= time < window.end or window.covers(time)):
                window = self._windows.at(time)
            if window is None or key in window.times:
                window = self._place(window, key, time, now, message)
                due, forgets = self._next_event()
            else:  # as `put` does, without a call for each message
                window.times[key] = time
                window.arrivals.append(now)
                window.messages.append(message)
        return closed

    def _next_event(self) -> tuple[Any, Any]:
        """Before the first of these nothing is due, and up to the second nothing is forgotten."""
        due = self._queue[0][0] if self._queue else math.inf
        return due, self._closed.batches[0][0] if self._closed.batches else math.inf

    def _place(
        self, window: Window | None, key: Hashable, time: Any, arrival: Any, message: M
    ) -> Window:
        """Adds a message that `window` covers, or for which there is none; where it is now."""
        if window is None:
            window = self._beginning_at(time)
            window.put(key, time, arrival, message)
            self._open(window)
            return window
        known = window.times.get(key, _NONE)
        if known is _NONE:
            window.put(key, time, arrival, message)
            return window
        if known == time:
            self.duplicates += 1
            return window
        later = self._split(window, *sorted((known, time)))
        joined = window if time < later.start else later
        joined.put(key, time, arrival, message)
        self._schedule(window)
        self._open(later)
        return joined

    def _beginning_at(self, start: Any) -> Window:
        """Return a full window (E1): it ends where the next open one begins, if that is earlier."""
        end = self._rule.window.after(start)
        following = self._windows.start_after(start)
        if following is None or end < following:
            return Window(start, end)
        return Window(start, following, shortened=True)

    def _split(self, window: Window, early: Any, late: Any) -> Window:
        """Split the messages of `window` between two times of one key. Return the later part."""
        cut = self._rule.cut(early, late)
        if self._rule.keeps_its_end:
            later = Window(cut, window.end, shortened=window.shortened)
        else:
            later = self._beginning_at(cut)
        window.part(cut, later)
        return later

    def _open(self, window: Window) -> None:
        self._windows.put(window)
        self._schedule(window)

    # Output of a batch.

    def _schedule(self, window: Window) -> None:
        due = self._rule.due(window)
        if due != window.due:
            window.due = due
            heapq.heappush(self._queue, (due, window.start, next(self._ties), window))

    def _close_due(self, now: Any) -> list[Batch[M]]:
        """Close what is due, as of the time it was due, and forget outdated messages."""
        queue = self._queue
        closed: list[Batch[M]] = []
        while queue and queue[0][0] <= now:
            due, _, _, window = heapq.heappop(queue)
            if window.due == due:
                closed.append(self._close(window, due))
        self._closed.forget(now)
        return closed

    def _close(self, window: Window, as_of: Any) -> Batch[M]:
        self._windows.remove(window)
        window.due = None
        self._closed.remember(list(window.times.items()), self._rule.memory.after(as_of))
        return Batch(window.in_order(), window.start, window.end, window.shortened)

    # Save and restore.

    def dump(self, encode: Callable[[M], object] | None = None) -> bytes:
        """Return all of its state as JSON, for `load`, without changing it.

        Messages and keys may be made of None, bool, int, float, str, bytes, datetime, date,
        timedelta, list, tuple, set, frozenset and dict. For messages of other types, `encode`
        converts one to these. TypeError names a value of any other type.
        """
        state = {
            "rule": self._rule.name,
            "spans": self._rule.spans,
            "memory": self._rule.memory.seconds,
            "now": self._now,
            "kind": self._kind and self._kind.value,
            "duplicates": self.duplicates,
            "dropped": self.dropped,
            "open": [
                [
                    window.start,
                    window.end,
                    window.shortened,
                    window.arrivals,
                    list(map(encode, window.messages)) if encode else window.messages,
                ]
                for window in self._windows
            ],
            "closed": [
                [until, *map(list, zip(*identities, strict=True))]
                for until, identities in self._closed.batches
            ],
        }
        return saved.pack(state)

    @classmethod
    def load(
        cls,
        data: bytes,
        *,
        key: Where,
        event_time: Where,
        decode: Callable[[Any], M] | None = None,
    ) -> EventTimeBuilder[M]:
        """Restore the builder that `dump` has saved, with its rule and its counters. `decode`
        reverses `encode`. ValueError if `data` is no saved state."""
        form, state = saved.unpack(data)
        builder = cls.__new__(cls)
        try:
            rule = RULES[state["rule"]](*(_span("spans", one) for one in state["spans"]))
            rule.memory = TimeSpan(_span("memory", state["memory"]))
            builder._begin(rule, key, event_time)
            builder._restore(saved.in_present_format(form, state), decode)
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            reason = f"it cannot be read: {error!r}"
            raise ArgumentError("data", UNSHOWN, "be what dump() gave", reason) from error
        return builder

    def _restore(self, state: dict[str, Any], decode: Callable[[Any], M] | None) -> None:
        if state["now"] is not None:
            self._now, self._now_kind = read(state["now"])
        if state["kind"] is not None:
            self._kind = TimeKind(state["kind"])
        self.duplicates, self.dropped = _counted(state["duplicates"]), _counted(state["dropped"])
        for start, end, shortened, arrivals, messages in state["open"]:
            window = Window(
                self._time_of(start), self._time_of(end), shortened=flag("shortened", shortened)
            )
            if not arrivals or window.end < window.start:
                raise ValueError("a batch has no message, or ends before it begins")
            members = list(map(decode, messages)) if decode else messages
            keys, times = self._key.values(members), self._times_in(members)
            for key, message in zip(keys, members, strict=True):
                if key.__class__ is not str and key.__class__ is not int:
                    self._read_key(message, key)
            came = _all_of_kind(arrivals, self._now_kind)
            window.times = dict(zip(keys, times, strict=True))
            window.arrivals, window.messages = list(came), list(members)
            if len(window.arrivals) != len(window.messages):
                raise ValueError("a batch has not one arrival for each of its messages")
            self._open(window)
        for until, keys, times in state["closed"]:
            known = zip(keys, _all_of_kind(times, self._kind), strict=True)
            self._closed.remember(list(known), self._arrival(until))

    def _times_in(self, messages: list[M]) -> Sequence[Any]:
        times = self._time.values(messages)
        found = read_all(times)
        if found is not None and found[1] is self._kind:
            return found[0]
        pairs = zip(messages, times, strict=True)
        return [self._read_time(message, time)[0] for message, time in pairs]

    def _time_of(self, value: Any) -> Any:
        """Decode an event time."""
        return _of_kind(value, self._kind)

    def _arrival(self, value: Any) -> Any:
        """Decode a time of arrival."""
        return _of_kind(value, self._now_kind)


def _of_kind(value: Any, kind: TimeKind | None) -> Any:
    time, own = read(value)
    if own is not kind:
        raise TypeError(f"{value!r} is not a time like the others")
    return time


def _all_of_kind(values: Sequence[Any], kind: TimeKind | None) -> Sequence[Any]:
    found = read_all(values)
    if found is not None and found[1] is kind:
        return found[0]
    return [_of_kind(value, kind) for value in values]


def _counted(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no count")
    return value


def _span(name: str, value: object) -> float:
    return seconds(name, value, zero=True)
