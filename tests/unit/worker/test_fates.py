"""Decisions about each message when its batch has ended."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity.stop import stop_after_attempt
from tenacity.wait import wait_exponential, wait_fixed

from dispatcher import PartialFailure, Reject, Retry, Throttled
from dispatcher._retry import RetryPolicy
from dispatcher.timeline import Lease
from dispatcher.timeline._encoding.times import LONGEST
from dispatcher.worker._message_results import Fates, HandlerReturnError, judge
from tests.worker_leases import lease, leases

POLICY = RetryPolicy.of(wait_exponential(multiplier=1, max=100), 5)


def all_of(fates: Fates) -> list[Lease]:
    again = [it for some in fates.again.values() for it in some]
    dead = [it for some in fates.dead.values() for it in some]
    return fates.done + again + dead + fates.throttled


outcomes = st.sampled_from(
    [
        None,
        Retry(after=3),
        Reject("bad"),
        Throttled(),
        ValueError("x"),
        OSError(),
        KeyboardInterrupt(),
    ]
)


@given(
    attempts=st.lists(st.integers(1, 8), min_size=1, max_size=20),
    data=st.data(),
)
def test_each_message_has_exactly_one_fate(attempts: list[int], data: st.DataObject) -> None:
    batch = [lease(f"m{number}", attempt=attempt) for number, attempt in enumerate(attempts)]
    said = {message.id: data.draw(outcomes) for message in batch}
    fates = judge(batch, None, said, POLICY)
    assert sorted(map(id, all_of(fates))) == sorted(map(id, batch))
    for message in fates.done:
        assert said[message.id] is None
    for message in fates.throttled:
        assert isinstance(said[message.id], Throttled)
    for delay, some in fates.again.items():
        for message in some:
            assert message.attempt < 5, "after the last attempt there is none"
            if isinstance(said[message.id], Retry):
                assert delay == 3
    for reason, some in fates.dead.items():
        for message in some:
            is_rejected = isinstance(said[message.id], Reject)
            assert (reason == "bad") == is_rejected
            assert is_rejected or message.attempt >= 5


def test_none_means_that_all_are_done() -> None:
    batch = leases(3)
    assert judge(batch, None, None, POLICY).done == batch


def test_raising_means_that_all_failed_and_back_off_by_their_attempts() -> None:
    batch = [lease("a", attempt=1), lease("b", attempt=3), lease("c", attempt=5)]
    fates = judge(batch, ValueError("no"), None, POLICY)
    assert fates.again == {1.0: [batch[0]], 4.0: [batch[1]]}
    assert fates.dead == {"attempt 5, the last one: ValueError: no": [batch[2]]}
    assert isinstance(fates.error, ValueError)


def test_those_that_fail_alike_come_back_together_in_spite_of_jitter() -> None:
    delays = iter(range(100))
    policy = RetryPolicy.of(lambda state: next(delays), 5)
    fates = judge(leases(50), ValueError(), None, policy)
    assert [len(some) for some in fates.again.values()] == [50]


@pytest.mark.parametrize("error", [ValueError(), Retry(after=timedelta(days=10_000))])
def test_nothing_is_put_off_for_longer_than_a_timeline_allows(error: Exception) -> None:
    batch = [lease(attempt=1)]
    fates = judge(batch, error, None, RetryPolicy.of(lambda state: math.inf, 5))
    assert fates.again == {LONGEST: batch}


def test_a_stop_strategy_gives_up_as_well() -> None:
    policy = RetryPolicy.of((wait_fixed(1), stop_after_attempt(2)), 10)
    fates = judge([lease(attempt=2)], ValueError(), None, policy)
    assert list(fates.dead) == ["attempt 2, the last one: ValueError"]


def test_partial_failure_names_messages_and_a_cause() -> None:
    batch = leases(3)
    fates = judge(batch, PartialFailure(batch[1:2], Retry(after=7)), None, POLICY)
    assert (fates.done, fates.again) == ([batch[0], batch[2]], {7.0: [batch[1]]})


def test_strangers_make_the_whole_batch_fail() -> None:
    batch = leases(2)
    fates = judge(batch, PartialFailure([lease("other")]), None, POLICY)
    assert fates.again == {1.0: batch}
    assert isinstance(fates.error, ValueError)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ([], "and not list"),
        (3, "and not int"),
        ({"other": None}, "'other' is none of this batch"),
        ({"m0": "bad"}, "and not to 'bad'"),
        ({"m0": PartialFailure([])}, "and not to PartialFailure"),
    ],
)
def test_what_says_nothing_makes_the_whole_batch_fail(returned: Any, said: str) -> None:
    batch = leases(2)
    fates = judge(batch, None, returned, POLICY)
    assert fates.again == {1.0: batch}
    assert isinstance(fates.error, HandlerReturnError)
    assert said in str(fates.error)


def test_an_error_without_a_text_is_named() -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError

    fates = judge([lease(attempt=5)], Mute(), None, POLICY)
    assert list(fates.dead) == ["attempt 5, the last one: Mute"]


def test_a_reason_that_cannot_say_what_it_is_rejects_its_message_alone() -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    batch = leases(2)
    reject = Reject("")
    reject.reason = Mute()
    fates = judge(batch, None, {batch[0].id: reject}, POLICY)
    assert fates.dead == {"rejected": [batch[0]]}
    assert fates.done == [batch[1]]
