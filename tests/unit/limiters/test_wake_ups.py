"""Wake-ups reach each caller that waits for capacity, whatever becomes of the events for users."""

from __future__ import annotations

import logging
import threading

import pytest

from dispatcher import Batcher, Operation, Watcher
from limiters import ProvisionedResource, RateLimiter, SharedResource
from limiters.events import Emitter
from limiters.testing import ManualClock
from tests.seen import PATIENCE


def test_each_change_and_the_end_is_a_wake_up() -> None:
    limiter, rung = ProvisionedResource(1_000, clock=ManualClock()), []
    limiter.add_wake_up(lambda: rung.append(limiter.started))
    limiter.start()
    limiter.set_capacity(2_000)
    limiter.stop()
    assert rung == [True, True, False]


def test_reserved_capacity_that_changes_is_a_wake_up() -> None:
    limiter, rung = SharedResource(reserved_capacity=1_000), []
    with limiter:
        limiter.add_wake_up(lambda: rung.append(limiter.max_capacity))
        limiter.set_reserved_capacity(2_000)
    assert rung[0] == 2_000


def test_one_that_raises_keeps_none_of_the_others_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limiter, rung = ProvisionedResource(1_000), []

    def broken() -> None:
        raise ValueError("broken")

    limiter.add_wake_up(broken)
    limiter.add_wake_up(lambda: rung.append(True))
    with caplog.at_level(logging.ERROR):
        limiter.set_capacity(2_000)
    assert rung == [True]
    assert "broken" in caplog.text


def test_one_that_has_ended_is_not_called() -> None:
    limiter, rung = ProvisionedResource(1_000), []
    wake_up = limiter.add_wake_up(lambda: rung.append(True))
    wake_up.end()
    wake_up.end()
    limiter.set_capacity(2_000)
    assert rung == []


def test_c9_a_batcher_goes_on_although_every_event_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Emitter, "MOST_WAITING", 0)
    sent = threading.Event()
    limiter = ProvisionedResource(1, period=3_600)
    with Batcher(rate_limiter=limiter, flush_interval=3_600, capacity_interval=3_600) as batcher:
        limiter.grant(1).spend(1)
        batcher.enqueue(Operation(Watcher(lambda batch: sent.set()), 1, None))
        assert not sent.is_set()
        limiter.set_capacity(1_000)
        assert sent.wait(PATIENCE)


@pytest.mark.parametrize("made", [ProvisionedResource(1), SharedResource(reserved_capacity=1)])
def test_both_limiters_have_all_that_a_batcher_uses(made: RateLimiter) -> None:
    assert isinstance(made, RateLimiter)
    assert (made.period, made.evicted, made.broken) == (1.0, False, None)
    made.publish(dict).end()
