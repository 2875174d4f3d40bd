"""Batches by event time: the seed's use cases letter by letter, then each law by example."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from operator import itemgetter
from typing import Any

import pytest

from dispatcher.builders import Batch, EventTimeBuilder, MeasurementError
from dispatcher.builders._times import middle

Message = tuple[str, Any]
SEEN = re.compile(r"([a-z])\d+:t(-?\d+)@T(\d+)")


def made(window: float = 50, timeout: float = 100, **options: Any) -> EventTimeBuilder[Message]:
    return EventTimeBuilder(window, timeout, key=itemgetter(0), event_time=itemgetter(1), **options)


def by_end(jitter: float, delivery: float, leap: float) -> EventTimeBuilder[Message]:
    return EventTimeBuilder.by_event_time(
        jitter, delivery, leap, key=itemgetter(0), event_time=itemgetter(1)
    )


def names(batches: list[Batch[Message]]) -> list[list[str]]:
    """Each batch as the seed writes it, without the arrival: a:t100."""
    return [[f"{key}:t{time}" for key, time in batch.messages] for batch in batches]


def fed(builder: EventTimeBuilder[Message], sequence: str) -> list[list[str]]:
    """The batches of a sequence as the seed writes it, closed by time alone at the end."""
    out = []
    for key, time, arrival in SEEN.findall(sequence):
        out += builder.add((key, int(time)), int(arrival))
    return names(out + builder.advance(10_000))


# E6: the use cases.

UC1 = "a1:t100@T110, b1:t115@T120, c1:t145@T150, d1:t155@T160, e1:t165@T170"
UC2 = "a1:t100@T110, b1:t115@T120, c1:t145@T150, d1:t155@T210, e1:t165@T225"
UC3 = "a1:t100@T110, b1:t115@T120, c1:t125@T150, a2:t135@T160, a3:t145@T170"
UC4 = "a1:t100@T110, b1:t115@T120, c1:t145@T150, d1:t155@T210, c1:t145@T150, e1:t165@T225"
UC5 = "a1:t100@T110, b1:t115@T120, c1:t145@T150, a2:t155@T210, b2:t200@T220, d1:t149@T225"


@pytest.mark.parametrize(
    ("sequence", "batches"),
    [
        (UC1, [["a:t100", "b:t115", "c:t145"], ["d:t155", "e:t165"]]),
        (UC2, [["a:t100", "b:t115", "c:t145"], ["d:t155", "e:t165"]]),
        (UC3, [["a:t100", "b:t115", "c:t125"], ["a:t135"], ["a:t145"]]),
        (UC4, [["a:t100", "b:t115", "c:t145"], ["d:t155", "e:t165"]]),
        (UC5, [["a:t100", "b:t115", "c:t145"], ["a:t155", "b:t200"], ["d:t149"]]),
    ],
    ids=["UC1", "UC2", "UC3", "UC4", "UC5"],
)
def test_e6_the_use_cases_letter_by_letter(sequence: str, batches: list[list[str]]) -> None:
    assert fed(made(), sequence) == batches


def test_e6_uc2_the_first_batch_comes_out_when_the_fourth_message_arrives() -> None:
    builder = made()
    for key, time, now in [("a", 100, 110), ("b", 115, 120), ("c", 145, 150)]:
        assert builder.add((key, time), now) == []
    assert names(builder.add(("d", 155), 210)) == [["a:t100", "b:t115", "c:t145"]]


def test_e4_uc4_the_repetition_is_counted() -> None:
    builder = made()
    fed(builder, UC4)
    assert (builder.duplicates, builder.dropped) == (1, 0)


def test_e1_uc5_the_late_message_gets_what_is_left_before_the_next_batch() -> None:
    builder = made()
    for key, time, arrival in SEEN.findall(UC5):
        builder.add((key, int(time)), int(arrival))
    (second, third) = builder.advance(1000)
    assert (second.start, second.end, second.shortened) == (155, 205, False)
    assert (third.start, third.end, third.shortened) == (149, 155, True)


# E1, E2: windows.


@pytest.mark.parametrize(("time", "together"), [(150, True), (150.0001, False), (99, False)])
def test_e1_a_window_reaches_to_its_end_and_no_further(time: float, together: bool) -> None:
    builder = made()
    builder.add(("a", 100), 0)
    builder.add(("b", time), 0)
    assert len(builder) == (1 if together else 2)


def test_e1_a_shortened_end_stays_when_the_next_batch_is_gone() -> None:
    builder = made(window=50, timeout=100)
    builder.add(("a", 120), 0)
    builder.add(("b", 100), 50)  # covers up to 120, and not 120 itself
    assert [batch.start for batch in builder.advance(100)] == [120]
    builder.add(("c", 120), 101)
    builder.add(("d", 119), 102)
    assert names(builder.advance(1000)) == [["b:t100", "d:t119"], ["c:t120"]]


def test_e1_a_window_of_zero_holds_one_instant() -> None:
    builder = made(window=0)
    for key, time in [("a", 5), ("b", 5), ("a", 6), ("b", 4)]:
        builder.add((key, time), 0)
    assert names(builder.advance(100)) == [["b:t4"], ["a:t5", "b:t5"], ["a:t6"]]


# E3: closing.


def test_e3_it_closes_when_the_time_is_reached_and_not_before() -> None:
    builder = made()
    builder.add(("a", 100), 110)
    assert builder.deadline == 210
    assert builder.advance(209.999) == []
    assert names(builder.advance(210)) == [["a:t100"]]
    assert builder.deadline is None


def test_e3_at_equal_times_closing_comes_before_adding() -> None:
    builder = made()
    builder.add(("a", 100), 110)
    assert names(builder.add(("b", 101), 210)) == [["a:t100"]]
    assert names(builder.advance(310)) == [["b:t101"]]


def test_e3_time_never_goes_back() -> None:
    builder = made()
    builder.add(("a", 100), 110)
    builder.advance(200)
    assert builder.advance(5) == []
    builder.add(("b", 500), 150)  # counts as 200
    assert names(builder.advance(299)) == [["a:t100"]]
    assert builder.deadline == 300


def test_e3_what_is_due_together_comes_by_due_time_then_start() -> None:
    builder = made()
    for key, time, now in [("a", 900, 10), ("b", 300, 11), ("c", 600, 11), ("d", 100, 12)]:
        builder.add((key, time), now)
    assert names(builder.advance(1000)) == [["a:t900"], ["b:t300"], ["c:t600"], ["d:t100"]]


def test_e3_the_earliest_arrival_of_each_part_counts_after_a_split() -> None:
    builder = made()
    builder.add(("b", 130), 110)
    builder.add(("a", 140), 120)
    builder.add(("a", 150), 130)  # the later part was opened by what came at 130
    assert builder.deadline == 210
    assert names(builder.advance(229)) == [["b:t130", "a:t140"]]
    assert builder.deadline == 230


def test_e3_a_part_that_lost_its_first_member_waits_for_its_own_timeout() -> None:
    builder = made()
    builder.add(("b", 100), 105)
    builder.add(("a", 140), 110)
    builder.add(("a", 100), 190)  # the earlier part keeps b, and so the deadline
    assert builder.deadline == 205
    builder = made()
    builder.add(("a", 100), 110)
    builder.add(("b", 145), 120)
    builder.add(("a", 130), 130)  # b goes with the later part, whose earliest is b's 120
    assert [builder.deadline, *names(builder.advance(210))] == [210, ["a:t100"]]
    assert builder.deadline == 220


def test_e3_a_deadline_that_moved_away_closes_nothing() -> None:
    builder = made()
    builder.add(("a", 100), 100)
    builder.add(("b", 145), 120)
    builder.add(("a", 130), 130)  # b's part is due at 220 ...
    builder.add(("b", 140), 140)  # ... and goes on without it, from 230
    assert names(builder.advance(229)) == [["a:t100"], ["b:t145"]]
    assert builder.deadline == 230
    assert names(builder.advance(230)) == [["a:t130", "b:t140"]]


def test_e3_no_call_in_between_changes_what_is_remembered_of_closed_batches() -> None:
    for calls in ([], [210], [210, 250, 300]):
        builder = made()
        builder.add(("a", 100), 110)
        for now in calls:
            builder.advance(now)
        builder.add(("a", 100), 361)  # closed at 210, known until 360
        assert builder.duplicates == 0


# E4: duplicates.


@pytest.mark.parametrize(("now", "known"), [(209, 1), (210, 1), (360, 1), (360.001, 0)])
def test_e4_a_message_is_known_while_open_and_for_as_long_as_set(now: float, known: int) -> None:
    builder = made()
    builder.add(("a", 100), 110)
    builder.add(("a", 100), now)
    assert builder.duplicates == known


def test_e4_the_memory_can_be_set() -> None:
    builder = made(duplicate_memory=5)
    builder.add(("a", 100), 110)
    builder.add(("a", 100), 215)
    assert builder.duplicates == 1
    builder.add(("a", 100), 215.5)
    assert builder.duplicates == 1


def test_e4_flushed_batches_are_remembered_from_the_latest_time_on() -> None:
    builder = made(duplicate_memory=10)
    builder.add(("a", 100), 110)
    assert names(builder.flush()) == [["a:t100"]]
    builder.add(("a", 100), 120)
    assert builder.duplicates == 1
    builder.add(("a", 100), 121)
    assert builder.duplicates == 1


def test_e4_what_was_forgotten_is_gone_from_memory() -> None:
    builder = made(window=1, timeout=1)
    for now in range(1000):
        builder.add(("a", now), now)
    assert len(builder._closed.known) <= 4
    assert len(builder._closed.batches) <= 4
    assert len(builder._queue) <= 3
    builder.flush()
    assert not builder._queue


# E5: conflicts.


@pytest.mark.parametrize("late_first", [False, True])
def test_e5_the_order_of_arrival_of_a_conflicting_pair_does_not_matter(late_first: bool) -> None:
    builder = made()
    builder.add(("b", 100), 0)
    builder.add(("c", 125), 0)
    for message in sorted([("a", 110), ("a", 125)], reverse=late_first):
        builder.add(message, 0)
    early, late = builder.advance(1000)
    assert names([early]) == [["b:t100", "a:t110"]]
    assert sorted(late.messages) == [("a", 125), ("c", 125)]
    assert (late.start, late.end, late.shortened) == (125, 175, False)


def test_e5_the_later_part_is_shortened_by_the_next_open_batch() -> None:
    builder = made()
    for message in [("a", 100), ("z", 160), ("a", 140)]:
        builder.add(message, 0)
    first, second, third = builder.advance(1000)
    assert (first.start, first.end) == (100, 140)
    assert (second.start, second.end, second.shortened) == (140, 160, True)
    assert third.start == 160


# E7: the other closing rule.


def test_e7_a_batch_closes_when_its_end_is_the_delivery_jitter_ago() -> None:
    builder = by_end(50, 20, 0)
    builder.add(("a", 100), 115)
    builder.add(("b", 150), 160)
    assert builder.deadline == 170
    assert builder.advance(169) == []
    assert names(builder.advance(170)) == [["a:t100", "b:t150"]]


@pytest.mark.parametrize(
    ("time", "dropped"), [(80, False), (79.9, True), (107, False), (107.1, True)]
)
def test_e7_what_comes_too_late_or_too_early_is_dropped(time: float, dropped: bool) -> None:
    builder = by_end(50, 20, 7)
    builder.add(("a", time), 100)
    assert builder.dropped == dropped
    assert len(builder) == (not dropped)


def test_e7_a_conflict_parts_the_batch_in_the_middle() -> None:
    builder = by_end(50, 100, 100)
    for message in [("a", 100), ("b", 114), ("c", 116), ("a", 130)]:
        builder.add(message, 130)
    first, second = builder.flush()
    assert names([first, second]) == [["a:t100", "b:t114"], ["c:t116", "a:t130"]]
    assert (first.start, first.end, first.shortened) == (100, 115, True)
    assert (second.start, second.end, second.shortened) == (115, 150, False)


def test_e7_what_a_message_makes_due_comes_out_with_it() -> None:
    builder = by_end(100, 50, 100)
    builder.add(("a", 100), 120)
    assert names(builder.add(("a", 101), 151)) == [["a:t100"]]  # ended at 100.5, due at 150.5
    assert builder.deadline == 250


def test_e7_now_must_be_of_the_kind_of_event_times() -> None:
    builder = by_end(50, 20, 0)
    with pytest.raises(ValueError, match=r"now must be .* kind.*, not 5; it cannot be compared"):
        builder.add(("a", datetime(2024, 1, 1)), 5)
    assert len(builder) == 0
    builder.add(("a", datetime(2024, 1, 1)), datetime(2024, 1, 1))
    with pytest.raises(ValueError, match=r"now must be .* kind.*, not 5; it cannot be compared"):
        builder.advance(5)


# Times of every kind.


def test_datetimes_in_seconds_and_in_timedeltas() -> None:
    start = datetime(2024, 3, 31, 0, 30, tzinfo=UTC)
    for window, timeout in [(50, 100), (timedelta(seconds=50), timedelta(seconds=100))]:
        builder = made(window, timeout)  # type: ignore[arg-type]
        for key, time, arrival in SEEN.findall(UC3):
            at = start + timedelta(seconds=int(time))
            builder.add((key, at), start + timedelta(seconds=int(arrival)))
        assert builder.deadline == start + timedelta(seconds=210)
        out = builder.advance(start + timedelta(seconds=10_000))
        assert [len(batch.messages) for batch in out] == [3, 1, 1]


def test_the_clock_change_does_not_bring_times_together_or_out_of_order() -> None:
    from zoneinfo import ZoneInfo

    amsterdam = ZoneInfo("Europe/Amsterdam")
    first = datetime(2024, 10, 27, 2, 30, fold=0, tzinfo=amsterdam)
    again = datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=amsterdam)  # one hour later
    builder = made(window=60)
    builder.add(("a", first), 0)
    builder.add(("a", again), 0)
    assert builder.duplicates == 0
    assert [batch.start.astimezone(UTC).hour for batch in builder.flush()] == [0, 1]


def test_zones_may_be_mixed_as_long_as_there_is_one() -> None:
    builder = made()
    builder.add(("a", datetime(2024, 1, 1, 12, tzinfo=UTC)), 0)
    builder.add(("a", datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))), 0)
    assert builder.duplicates == 1


@pytest.mark.parametrize("time", [datetime.max, datetime.min, 10**300, -(10**300), 1e308, -1e308])
def test_the_last_times_there_are(time: Any) -> None:
    for builder in (made(), by_end(50, 20, 5)):
        batches = []
        for key in "ab":
            batches += builder.add((key, time), time)
        batches += builder.flush()
        assert [one for batch in batches for one in batch.messages] == [("a", time), ("b", time)]
        assert all(batch.start == time <= batch.end for batch in batches)


def test_whole_numbers_stay_exact_however_large() -> None:
    base = 10**18 + 1  # nanoseconds, where floats are 128 apart
    builder = made(window=50)
    builder.add(("a", base), 0)
    builder.add(("b", base + 50), 0)
    builder.add(("c", base + 51), 0)
    assert [len(batch.messages) for batch in builder.advance(100)] == [2, 1]


def test_whole_numbers_stay_exact_with_a_window_that_is_not_whole() -> None:
    base = 2**60 + 1
    builder = made(window=2.5)
    for key, step in [("a", 0), ("b", 2), ("c", 3)]:
        builder.add((key, base + step), 0)
    assert [len(batch.messages) for batch in builder.advance(100)] == [2, 1]


STEP = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("early", "late", "half"),
    [
        (100, 105, 102.5),
        (1.0, math.nextafter(1.0, 2), math.nextafter(1.0, 2)),
        (1e308, 1.5e308, 1.25e308),
        (2**60, 2**60 + 5, 2**60 + 3),
        (-(2**60) - 5, -(2**60), -(2**60) - 2),
        (datetime.min, datetime.min + STEP, datetime.min + STEP),
        (datetime.min, datetime.min + 5 * STEP, datetime.min + 3 * STEP),
        (datetime.min, datetime.min + 6 * STEP, datetime.min + 3 * STEP),
    ],
)
def test_e7_the_middle_is_exact_and_parts_the_two(early: Any, late: Any, half: Any) -> None:
    assert middle(early, late) == half
    assert early < middle(early, late) <= late


# Bad input.

GOOD = ("a", 100)


@pytest.mark.parametrize(
    "bad",
    [
        ("b", float("nan")),
        ("b", float("inf")),
        ("b", None),
        ("b", "today"),
        ("b", True),
        ("b", 10**400),
        ("b", datetime(2024, 1, 1)),
        ("b",),
        (None, 100),
        ([], 100),
        None,
    ],
    ids=repr,
)
def test_a_message_that_cannot_be_used_is_named_and_changes_nothing(bad: Any) -> None:
    builder = made()
    builder.add(GOOD, 110)
    before = builder.dump()
    with pytest.raises(MeasurementError) as caught:
        builder.add(bad, 5000)
    assert caught.value.measurement is bad
    assert repr(bad)[:100] in str(caught.value)
    messages: list[Any] = [bad, GOOD]
    with pytest.raises(MeasurementError) as caught:
        builder.add_many(messages, [5000, 5000])
    assert caught.value.measurement is bad
    assert builder.dump() == before
    assert names(builder.advance(210)) == [["a:t100"]]


def test_naive_after_aware_is_named_and_changes_nothing() -> None:
    builder = made()
    builder.add(("a", datetime(2024, 1, 1)), 0)
    before = builder.dump()
    with pytest.raises(MeasurementError, match="aware datetimes after naive datetimes"):
        builder.add(("b", datetime(2024, 1, 1, tzinfo=UTC)), 1000)
    assert builder.dump() == before


@pytest.mark.parametrize(
    "now", [float("nan"), float("inf"), None, "now", datetime(2024, 1, 1), True]
)
def test_a_now_that_cannot_be_used_is_named_and_changes_nothing(now: Any) -> None:
    builder = made()
    builder.add(GOOD, 110)
    before = builder.dump()
    with pytest.raises(ValueError, match="now"):
        builder.add(("b", 101), now)
    with pytest.raises(ValueError, match="now"):
        builder.advance(now)
    with pytest.raises(ValueError, match="now"):
        builder.add_many([("b", 101)], [now])
    with pytest.raises(ValueError, match="nows must have one time for each of 1 messages"):
        builder.add_many([("b", 101)], [])
    assert builder.dump() == before


def test_fields_by_name_of_item_and_attribute() -> None:
    class Reading:
        kind = "a"
        at = 100

    for message in ({"kind": "a", "at": 100}, Reading()):
        builder = EventTimeBuilder[Any](50, 100, key="kind", event_time="at")
        builder.add(message, 0)
        assert builder.flush()[0].messages == [message]
    builder = EventTimeBuilder(50, 100, key="kind", event_time="at")
    with pytest.raises(MeasurementError, match="no event_time: no 'at'"):
        builder.add({"kind": "a"}, 0)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"window": -1}, "window must be zero or more seconds, not -1"),
        ({"timeout": float("nan")}, "timeout must be finite, not nan"),
        ({"duplicate_memory": -5}, "duplicate_memory must be zero or more seconds, not -5"),
        ({"key": 5}, "key must be a callable"),
        ({"event_time": ""}, "event_time must be a callable"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        EventTimeBuilder(**{"window": 1, "timeout": 1, "key": "k", "event_time": "t", **arguments})


@pytest.mark.parametrize("named", ["event_jitter", "delivery_jitter", "message_leap_limit"])
def test_a_bad_argument_of_the_other_rule_is_named(named: str) -> None:
    good = {"event_jitter": 1, "delivery_jitter": 1, "message_leap_limit": 1}
    with pytest.raises(ValueError, match=f"{named} must be zero or more seconds, not -1"):
        EventTimeBuilder.by_event_time(**{**good, named: -1}, key="k", event_time="t")
