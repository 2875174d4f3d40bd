"""Which buckets a consumer turns to, for how many messages, and which consumer serves which."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.timeline._leasing.agenda import GRACE_MS, PATIENCE_MS, WINDOW_MS, Agenda
from dispatcher.timeline._leasing.members import Membership, share, stand_in
from dispatcher.timeline._leasing.wakeups import busy, free, heard_in
from dispatcher.timeline._server.topic import KNOWN

NAMES = st.sets(st.text(min_size=1), min_size=1, max_size=9)
TIMES = st.lists(st.integers(0, 9_000), max_size=40)


class Buckets:
    """A server with messages, which answers a wave."""

    def __init__(self, waiting: list[list[int]], lost: list[list[int]]) -> None:
        self.sets = [[sorted(one) for one in both] for both in zip(waiting, lost, strict=True)]
        self.agenda = Agenda(len(waiting))
        for bucket in range(len(waiting)):
            self.tell(bucket)

    def tell(self, bucket: int) -> None:
        waiting, lost = self.sets[bucket]
        self.agenda.learn(bucket, waiting[:KNOWN], lost[:KNOWN])

    def lease(self, bucket: int, limit: int, latest: float) -> list[int]:
        given: list[int] = []
        for _ in range(limit):
            heads = [one for one in self.sets[bucket] if one and one[0] <= latest]
            if not heads:
                break
            given.append(min(heads, key=lambda one: one[0]).pop(0))
        self.tell(bucket)
        return given

    @property
    def left(self) -> list[int]:
        return [time for both in self.sets for one in both for time in one]


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=6), st.integers(1, 30))
def test_no_message_is_overtaken_by_one_due_more_than_a_second_later(
    both: list[tuple[list[int], list[int]]], limit: int
) -> None:
    buckets = Buckets([one for one, _ in both], [other for _, other in both])
    total = len(buckets.left)
    while buckets.left:
        served: list[int] = []
        while len(served) < limit:
            wave = buckets.agenda.choose(10_000, limit - len(served))
            if not wave.portions:
                break
            assert sum(portion for _, portion in wave.portions) <= limit - len(served)
            before = len(served)
            for bucket, portion in wave.portions:
                served += buckets.lease(bucket, portion, wave.latest)
            assert len(served) > before, "each wave brings something"
        assert len(served) == min(limit, total), "all that was asked for, if it is there"
        total -= len(served)
        for time in buckets.left:
            assert max(served) - time < WINDOW_MS


@given(st.lists(st.tuples(TIMES, TIMES), min_size=2, max_size=6), st.sets(st.integers(0, 5)))
def test_what_is_others_is_left_to_them_for_a_while(
    both: list[tuple[list[int], list[int]]], own: set[int]
) -> None:
    buckets = Buckets([one for one, _ in both], [other for _, other in both])
    agenda, now = buckets.agenda, 5_000
    agenda.assign(own & set(range(len(both))))
    expected = set()
    for bucket, (waiting, lost) in enumerate(buckets.sets):
        patience, grace = (0.0, 0.0) if bucket in own else (PATIENCE_MS, GRACE_MS)
        times = [time + patience for time in waiting] + [time + grace for time in lost]
        assert agenda.when(bucket) == min(times, default=math.inf)
        if min(times, default=math.inf) <= now:
            expected.add(bucket)
    wave = agenda.choose(now, 1_000_000)
    assert {bucket for bucket, _ in wave.portions} <= expected
    assert bool(wave.portions) == bool(expected)
    assert agenda.has_more(now) == bool(expected & own)


def test_t11_buckets_take_turns_within_a_second() -> None:
    agenda = Agenda(4)
    for bucket in range(4):
        agenda.learn(bucket, [100 * bucket] * KNOWN, [])
    asked = [agenda.choose(999, 10).portions for _ in range(8)]
    assert asked == [[(bucket, 10)] for bucket in (0, 1, 2, 3, 0, 1, 2, 3)]


def test_thin_buckets_are_asked_together_and_for_what_else_they_may_have() -> None:
    agenda = Agenda(4)
    for bucket, due in enumerate((3, 1, 0, 2)):
        agenda.learn(bucket, [bucket] * due, [])
    assert agenda.choose(5, 6) == ([(0, 3), (1, 1), (3, 2)], WINDOW_MS - 1)
    assert agenda.choose(5, 100) == ([(0, 35), (1, 32), (3, 33)], math.inf)


def test_thick_buckets_are_asked_for_as_much_as_a_script_may_lease() -> None:
    agenda = Agenda(3)
    for bucket in range(3):
        agenda.learn(bucket, [bucket + 1] * KNOWN, [])
    assert agenda.choose(5, 100) == ([(0, 100)], WINDOW_MS - 1)
    assert agenda.choose(5, 250) == ([(1, 100), (2, 100), (0, 50)], WINDOW_MS - 1)


def test_t13_when_to_turn_to_a_bucket() -> None:
    agenda = Agenda(2)
    assert agenda.next() == math.inf
    agenda.assign([0])
    agenda.learn(0, [5_000], [3_000])
    assert agenda.next() == 3_000
    agenda.hear(0, 2_000)
    agenda.hear(0, 9_000)
    agenda.hear(77, 1)  # of a topic that was created again, with more
    assert agenda.next() == 2_000
    agenda.learn(0, [], [])
    agenda.learn(1, [5_000], [5_000])
    assert agenda.next() == 5_000 + GRACE_MS, "a lease that ran out is free for all"
    agenda.learn(1, [5_000], [])
    assert agenda.next() == 5_000 + PATIENCE_MS, "and so is what is overdue"
    assert not agenda.has_more(9_000)
    agenda.assign([0, 1])
    assert agenda.has_more(9_000)


def test_a_bucket_that_gave_no_answer_does_not_hold_up_the_others() -> None:
    agenda = Agenda(2)
    agenda.learn(0, [1], [])
    agenda.learn(1, [5_000], [])
    agenda.put_off(0, 7_000)
    assert [bucket for bucket, _ in agenda.choose(6_000, 10).portions] == [1]
    assert [bucket for bucket, _ in agenda.choose(7_000, 10).portions] == [1, 0]


@given(NAMES, st.integers(1, 200))
def test_t11_shares_are_even_whole_and_apart(members: set[str], buckets: int) -> None:
    shares = [share(sorted(members), one, buckets) for one in members]
    assert sorted(bucket for one in shares for bucket in one) == list(range(buckets))
    sizes = {len(one) for one in shares}
    assert max(sizes) - min(sizes) <= 1


@given(NAMES, st.data(), st.integers(1, 200))
def test_those_with_room_divide_the_buckets_of_the_busy_ones(
    members: set[str], data: st.DataObject, buckets: int
) -> None:
    busy_ones = data.draw(st.sets(st.sampled_from(sorted(members))))
    stand_ins = {one: stand_in(sorted(members), busy_ones, one, buckets) for one in members}
    left = sorted(it for one in busy_ones for it in share(sorted(members), one, buckets))
    free_ones = members - busy_ones
    assert not any(stand_ins[one] for one in busy_ones)
    assert sorted(it for one in free_ones for it in stand_ins[one]) == (left if free_ones else [])
    sizes = {len(stand_ins[one]) for one in free_ones} or {0}
    assert max(sizes) - min(sizes) <= 1


@given(st.text(min_size=1))
def test_what_consumers_say_to_each_other_is_understood(name: str) -> None:
    written = name.encode()
    assert heard_in(busy(written)) == (name, True)
    assert heard_in(free(written)) == (name, False)


def test_what_a_consumer_says_of_itself_does_not_keep_it_from_standing_in() -> None:
    topic: Any = SimpleNamespace(buckets=4)
    membership = Membership(topic, "a")
    membership.members = ["a", "b"]
    assert (membership.own, membership.served) == ([0, 2], [0, 2])
    membership.hear("b", True)
    membership.hear("a", True)
    assert membership.served == [0, 2, 1, 3]
    membership.hear("b", False)
    assert membership.served == [0, 2]


def test_what_is_due_in_its_own_buckets_is_counted_as_far_as_it_is_known() -> None:
    agenda = Agenda(3)
    agenda.assign([0, 1])
    assert agenda.due(9_000) == 0
    agenda.learn(0, [5_000] * 7, [])
    agenda.learn(2, [5_000] * KNOWN, [])
    assert agenda.due(4_999) == 0
    assert agenda.due(5_000) == 7, "and not what others are to demand"
    agenda.hear(1, 5_000)
    assert agenda.due(5_000) == 8
    agenda.learn(0, [6_000], [])
    assert agenda.due(5_000) == 1
    agenda.learn(0, [5_000] * KNOWN, [], 900)
    assert agenda.due(5_000) == KNOWN + 900 + 1
    agenda.learn(0, [6_000], [])
    assert agenda.due(5_000) == 1
