"""Laws E1 to E8 on random histories, and against the plain builder; times that collide, go
backwards, are negative or huge."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.builders import Batch, EventTimeBuilder
from dispatcher.builders._windows import windows
from tests.examples import examples
from tests.plain_builders import PlainEnd, PlainEventTime, PlainTimeout

History = list[tuple[str, float, float]]
"""Key, event time and arrival."""

# Halves and whole numbers: exact as floats, so that both builders compute the same.
near = st.integers(-30, 60) | st.integers(-60, 120).map(lambda n: n / 2)
huge = st.sampled_from([10**15, -(10**15), 2**70, -(2**70)])
histories = st.lists(
    st.tuples(st.sampled_from("abc"), near | huge, st.integers(0, 200)), max_size=40
)
in_time = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-20, 15), st.integers(0, 8)), max_size=40
).map(
    lambda steps: [
        (key, sum(step for *_, step in steps[: n + 1]) + time, sum(s for *_, s in steps[: n + 1]))
        for n, (key, time, _) in enumerate(steps)
    ]
)
spans = st.integers(0, 40)


def made(window: Any, timeout: Any, **options: Any) -> EventTimeBuilder[Any]:
    return EventTimeBuilder(window, timeout, key=itemgetter(0), event_time=itemgetter(1), **options)


def by_end(*jitters: Any) -> EventTimeBuilder[Any]:
    return EventTimeBuilder.by_event_time(*jitters, key=itemgetter(0), event_time=itemgetter(1))


def told(batches: list[Batch[Any]]) -> list[Any]:
    return [(one.start, one.end, one.shortened, one.messages) for one in batches]


def compare(builder: EventTimeBuilder[Any], plain: PlainEventTime, history: History) -> None:
    for message in history:
        key, time, now = message
        assert told(builder.add(message, now)) == plain.add(key, time, message, now)
        dues = [plain.due(batch) for batch in plain.open]
        assert builder.deadline == min(dues, default=None)
        assert len(builder) == len(plain.open)
    assert told(builder.flush()) == plain.flush()
    assert (builder.duplicates, builder.dropped) == (plain.duplicates, plain.dropped)


@settings(max_examples=examples(400))
@given(histories | in_time, spans, spans, st.none() | spans)
def test_e1_to_e5_equal_to_the_plain_builder(
    history: History, window: int, timeout: int, memory: int | None
) -> None:
    builder = made(window, timeout, duplicate_memory=memory)
    compare(builder, PlainTimeout(window, timeout, memory), history)


@given(histories | in_time, spans, spans)
def test_e1_windows_in_many_small_chunks_are_found_alike(
    history: History, window: int, timeout: int
) -> None:
    with mock.patch.object(windows, "CHUNK", 2):
        compare(made(window, timeout), PlainTimeout(window, timeout), history)


@settings(max_examples=examples(400))
@given(in_time | histories, spans, spans, st.integers(0, 30))
def test_e7_equal_to_the_plain_builder(
    history: History, jitter: int, delivery: int, leap: int
) -> None:
    compare(by_end(jitter, delivery, leap), PlainEnd(jitter, delivery, leap), history)


@settings(max_examples=examples(400))
@given(
    in_time | histories,
    spans,
    spans,
    st.none() | spans,
    st.integers(1, 50),
    st.sampled_from(["as it is", "by arrival", "by arrival and time"]),
)
def test_e6_many_messages_in_one_call_make_the_batches_that_they_make_one_by_one(
    history: History, window: int, timeout: int, memory: int | None, size: int, order: str
) -> None:
    if order != "as it is":
        history = sorted(history, key=itemgetter(2))
    if order == "by arrival and time":
        times = sorted(time for _, time, _ in history)
        history = [(key, time, now) for (key, _, now), time in zip(history, times, strict=True)]
    pairs = (
        [made(window, timeout, duplicate_memory=memory) for _ in range(2)],
        [by_end(window, timeout, 1000) for _ in range(2)],
    )
    for single, many in pairs:
        for start in range(0, len(history), size):
            some = history[start : start + size]
            one_by_one = [batch for message in some for batch in single.add(message, message[2])]
            assert told(many.add_many(some, [now for *_, now in some])) == told(one_by_one)
            assert many.dump() == single.dump()
            assert many.deadline == single.deadline
            assert many.remembers_until == single.remembers_until
        assert told(many.flush()) == told(single.flush())


def check_batches(batches: list[Batch[Any]], history: History, builder: Any) -> None:
    """Check the laws that hold for any output."""
    out = [message for batch in batches for message in batch.messages]
    assert len(out) + builder.duplicates + builder.dropped == len(history)
    assert sorted(out) == sorted(out_of(history, out))
    for batch in batches:
        times = [message[1] for message in batch.messages]
        assert times == sorted(times)
        assert batch.start <= times[0]
        assert times[-1] < batch.end if batch.shortened else times[-1] <= batch.end
        keys = [message[0] for message in batch.messages]
        assert len(set(keys)) == len(keys)


def out_of(history: History, messages: list[Any]) -> list[Any]:
    """As many of `messages` as are in `history`: fewer, if one was made up or doubled."""
    rest = list(history)
    found = []
    for message in messages:
        if message in rest:
            rest.remove(message)
            found.append(message)
    return found


@given(histories | in_time, spans, spans)
def test_e2_e4_e5_every_message_comes_out_once_or_is_counted(
    history: History, window: int, timeout: int
) -> None:
    for builder in (made(window, timeout), by_end(window, timeout, 1000)):
        batches = [batch for m in history for batch in builder.add(m, m[2])]
        check_batches(batches + builder.flush(), history, builder)


@given(histories, spans, spans)
def test_e1_open_batches_never_overlap(history: History, window: int, timeout: int) -> None:
    for builder in (made(window, timeout), by_end(window, timeout, 1000)):
        for message in history:
            builder.add(message, message[2])
            opened = list(builder._windows)
            for early, late in pairwise(opened):
                assert early.end < late.start or (early.end == late.start and early.shortened)
                assert early.start < late.start


@given(in_time, spans, spans, st.lists(st.integers(0, 300), max_size=10))
def test_e3_e6_calls_that_only_pass_time_change_no_batch(
    history: History, window: int, timeout: int, ticks: list[int]
) -> None:
    for make, spans in ((made, (window, timeout)), (by_end, (window, timeout, 20))):
        quiet, ticked = make(*spans), make(*spans)
        quiet_out = [batch for m in history for batch in quiet.add(m, m[2])]
        ticked_out = []
        for message in history:
            for tick in sorted(ticks):
                if tick <= message[2]:
                    ticked_out += ticked.advance(tick)
            ticked_out += ticked.add(message, message[2])
        # Not where only `now` was behind: a tick is seen, so it must not be ahead of a message.
        assert told(ticked_out + ticked.flush()) == told(quiet_out + quiet.flush())
        assert quiet.duplicates == ticked.duplicates


@given(histories, spans, st.integers(1, 40))
def test_e3_advancing_to_the_deadline_closes_something_and_before_it_nothing(
    history: History, window: int, timeout: int
) -> None:
    builder = made(window, timeout)
    for message in history:
        builder.add(message, message[2])
        deadline: Any = builder.deadline
        if deadline is not None and builder._now < deadline - 0.5:
            assert builder.advance(deadline - 0.5) == []
    while builder.deadline is not None:
        assert builder.advance(builder.deadline)


Make = Callable[[Any], Any]
MOMENT = datetime(2024, 2, 28, 23, 59, tzinfo=UTC)
KINDS: list[Make] = [
    lambda n: n,
    float,
    lambda n: n - 10**6,
    lambda n: n + 2**60,
    lambda n: MOMENT + timedelta(seconds=n),
    lambda n: MOMENT.replace(tzinfo=None) + timedelta(seconds=n),
]


@given(in_time, spans, spans, st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_e6_the_kind_and_the_origin_of_times_change_nothing(
    history: History, window: int, timeout: int, event_time: Make, arrival: Make
) -> None:
    numbers, others = made(window, timeout), made(window, timeout)
    turned = {event_time(time): time for _, time, _ in history}

    def back(batches: list[Batch[Any]]) -> list[Any]:
        return [[(key, turned[time]) for key, time, _ in one.messages] for one in batches]

    for key, time, now in history:
        expected = numbers.add((key, time, now), now)
        got = others.add((key, event_time(time), now), arrival(now))
        assert back(got) == [[one[:2] for one in batch.messages] for batch in expected]
    assert len(numbers.flush()) == len(others.flush())
    assert numbers.duplicates == others.duplicates


@settings(max_examples=examples(200))
@given(histories | in_time, spans, spans, st.data())
def test_e8_saving_and_loading_at_any_point_changes_nothing(
    history: History, window: int, timeout: int, data: st.DataObject
) -> None:
    for builder in (made(window, timeout), by_end(window, timeout, 1000)):
        other = EventTimeBuilder[Any].load(
            builder.dump(), key=itemgetter(0), event_time=itemgetter(1)
        )
        for message in history:
            if data.draw(st.booleans()):
                state = other.dump()
                other = EventTimeBuilder.load(state, key=itemgetter(0), event_time=itemgetter(1))
                assert other.dump() == state
            expected = builder.add(message, message[2])
            assert told(other.add(message, message[2])) == told(expected)
            assert other.deadline == builder.deadline
        assert told(other.flush()) == told(builder.flush())
        assert (other.duplicates, other.dropped) == (builder.duplicates, builder.dropped)
