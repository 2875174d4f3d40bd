"""A builder in real time in front of a real Batcher: law E3 also when nothing more arrives."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

import pytest

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    ImproperOrderError,
    Operation,
    ProvisionedResource,
    TooExpensiveError,
    Watcher,
)
from dispatcher.builders import EventTimeBuilder, MeasurementError
from dispatcher.senders import EpochClock, EventTimeDriver, UtcClock
from limiters.testing import ManualClock
from tests.seen import PATIENCE, Seen
from tests.waiting import until


def built(window: float = 50, timeout: float = 100) -> EventTimeBuilder[Any]:
    return EventTimeBuilder(window, timeout, key=itemgetter(0), event_time=itemgetter(1))


def raised(seen: Seen) -> list[list[Any]]:
    return [payload.messages for payload in seen.payloads]


def test_e3_a_batch_closes_on_time_though_nothing_more_arrives(batcher: Batcher) -> None:
    seen = Seen()
    with EventTimeDriver(built(timeout=0.05), batcher, Watcher(seen)) as driver:
        started = time.monotonic()
        driver.add(("a", 1))
        until(lambda: raised(seen))
        assert time.monotonic() - started >= 0.05
        assert raised(seen) == [[("a", 1)]]
        driver.add(("c", 3))  # it sleeps without a deadline, and must be woken
        until(lambda: raised(seen)[1:] == [[("c", 3)]])


def test_e3_not_before_its_time(batcher: Batcher) -> None:
    seen, clock = Seen(), ManualClock()
    watcher = Watcher(seen)
    with EventTimeDriver(built(), batcher, watcher, clock=clock) as driver:
        driver.add(("a", 1))
        clock.advance(99)
        driver.add(("b", 2))
        driver.look()
        assert watcher.wait(PATIENCE)
        assert raised(seen) == []
        clock.advance(1)
        driver.look()
        until(lambda: raised(seen) == [[("a", 1), ("b", 2)]])


def test_e3_batches_go_in_the_order_they_closed_one_at_a_time(batcher: Batcher) -> None:
    seen, clock = Seen(held=True), ManualClock()
    with EventTimeDriver(built(), batcher, Watcher(seen), clock=clock) as driver:
        for start in (900, 100, 500):
            driver.add(("a", start))
            clock.advance(1)
        clock.advance(100)
        driver.look()
        until(lambda: raised(seen))
        assert batcher.inflight == 1
        seen.gate.set()
    until(lambda: raised(seen) == [[("a", 900)], [("a", 100)], [("a", 500)]])


def test_cost_and_order_key_are_asked_of_the_batch(batcher: Batcher) -> None:
    told: list[Any] = []
    watcher = Watcher(lambda operations: told.extend((o.cost, o.key) for o in operations))
    with EventTimeDriver(built(), batcher, watcher) as driver:
        driver.add(("a", 1))
        driver.add(("b", 2))
    assert watcher.wait(PATIENCE)
    with EventTimeDriver(
        built(), batcher, watcher, cost=lambda batch: 7, order_key=lambda batch: batch.start
    ) as driver:
        driver.add(("a", 1))
    assert watcher.wait(PATIENCE)
    assert told[0][0] == 2
    assert told[0][1] is not None
    assert told[1] == (7, 1)


def test_a_message_that_cannot_be_used_is_refused_where_it_is_added(batcher: Batcher) -> None:
    seen = Seen()
    with EventTimeDriver(built(), batcher, Watcher(seen)) as driver:
        with pytest.raises(MeasurementError, match="no"):
            driver.add("no")
        driver.add(("a", 1))
    until(lambda: raised(seen) == [[("a", 1)]])


def test_e8_open_batches_stay_in_the_builder_and_can_be_saved(batcher: Batcher) -> None:
    seen, clock, builder = Seen(), ManualClock(), built()
    first = EventTimeDriver(builder, batcher, Watcher(seen), clock=clock)
    first.start()
    first.add(("a", 1))
    assert first.stop(flush=False) == []
    state = builder.dump()
    other = EventTimeBuilder[Any].load(state, key=itemgetter(0), event_time=itemgetter(1))
    clock.advance(60)
    with EventTimeDriver(other, batcher, Watcher(seen), clock=clock) as driver:
        driver.add(("b", 2))
        clock.advance(40)
        driver.look()
        until(lambda: raised(seen) == [[("a", 1), ("b", 2)]])


def test_e8_stopping_without_a_flush_closes_nothing_any_more(batcher: Batcher) -> None:
    clock, builder = ManualClock(), built()
    driver = EventTimeDriver(builder, batcher, Watcher(Seen()), clock=clock)
    driver.start()
    driver.add(("a", 1))
    until(lambda: driver._wake == builder.deadline)
    clock.advance(1000)
    driver.stop(flush=False)
    assert len(builder) == 1


def test_when_the_batcher_is_stopped_add_says_so_and_stop_returns_the_rest() -> None:
    clock = ManualClock()
    batcher = Batcher()
    batcher.start()
    driver = EventTimeDriver(built(), batcher, Watcher(Seen()), clock=clock)
    driver.start()
    driver.add(("a", 1))
    batcher.stop()
    clock.advance(100)
    driver.look()

    def refused() -> bool:
        try:
            driver.add(("b", 500))
        except BatcherStoppedError:
            return True
        return False

    until(refused)
    unsent = [batch.messages for batch in driver.stop()]
    assert unsent[0] == [("a", 1)]
    assert driver.stop() == driver.stop()


def test_add_waits_while_too_many_closed_batches_wait() -> None:
    seen, clock = Seen(), ManualClock()
    batcher = Batcher(max_buffer_size=1, flush_interval=0.01)
    batcher.start()
    batcher.pause(1000)
    driver = EventTimeDriver(built(), batcher, Watcher(seen), clock=clock, max_waiting=2)
    driver.start()
    added = []

    def feed() -> None:
        for number in range(10):
            driver.add(("a", number * 1000))
            added.append(number)
            clock.advance(100)

    feeder = threading.Thread(target=feed)
    feeder.start()
    until(lambda: len(driver._closed) == 2)
    assert len(added) < 10
    batcher.resume()
    feeder.join(PATIENCE)
    assert driver.stop() == []
    batcher.stop()
    assert raised(seen) == [[("a", number * 1000)] for number in range(10)]


def test_stopping_gives_up_in_time_and_returns_what_was_not_sent() -> None:
    batcher = Batcher(max_buffer_size=1)
    batcher.start()
    batcher.pause(1000)
    batcher.enqueue(Operation(Watcher(Seen()), 1, "another's"))  # in the only place
    driver = EventTimeDriver(built(), batcher, Watcher(Seen()))
    driver.start()
    for number in range(3):
        driver.add(("a", number * 1000))
    unsent = driver.stop(timeout=0.1)
    assert [batch.messages for batch in unsent] == [[("a", number * 1000)] for number in range(3)]
    assert driver.stop() == unsent
    batcher.stop(drain=False)


def test_what_no_batcher_accepts_goes_to_the_failure_callback() -> None:
    failed: list[Any] = []

    def on_failure(operations: list[Operation], error: BaseException) -> None:
        failed.append((operations[0].payload.messages, type(error)))

    def cost(batch: Any) -> float:
        return {1: 101, 1000: 1 / 0 if batch.start == 1000 else 0, 2000: 1}[batch.start]

    seen = Seen()
    with Batcher(rate_limiter=ProvisionedResource(100)) as batcher:
        watcher = Watcher(seen, on_failure=on_failure)
        with EventTimeDriver(built(), batcher, watcher, cost=cost) as driver:
            for start in (1, 1000, 2000):
                driver.add(("a", start))
    assert failed == [([("a", 1)], TooExpensiveError), ([("a", 1000)], ZeroDivisionError)]
    assert raised(seen) == [[("a", 2000)]]


class BrokenClock(ManualClock):
    broken = False

    def now(self) -> float:
        if self.broken:
            raise OSError("no time")
        return super().now()


def test_a_clock_that_fails_stops_the_driver_and_no_caller_waits_for_it(
    batcher: Batcher, caplog: pytest.LogCaptureFixture
) -> None:
    clock = BrokenClock()
    driver = EventTimeDriver(built(), batcher, Watcher(Seen()), clock=clock)
    driver.start()
    driver.add(("a", 1))
    clock.broken = True
    driver.look()
    until(lambda: not driver._thread.is_alive())
    with pytest.raises(BatcherStoppedError):
        driver.add(("b", 1))
    assert [batch.messages for batch in driver.stop()] == [[("a", 1)]]
    assert "the driver has failed" in caplog.text


def test_calls_out_of_order_are_refused(batcher: Batcher) -> None:
    driver = EventTimeDriver(built(), batcher, Watcher(Seen()))
    with pytest.raises(ImproperOrderError):
        driver.add(("a", 1))
    with pytest.raises(ImproperOrderError):
        driver.stop()
    driver.start()
    with pytest.raises(ImproperOrderError):
        driver.start()
    driver.stop()
    with pytest.raises(ImproperOrderError):
        driver.add(("a", 1))


def test_leaving_by_an_exception_sends_nothing_that_is_open(batcher: Batcher) -> None:
    builder = built()
    driver = EventTimeDriver(builder, batcher, Watcher(Seen()))
    driver.__enter__()
    driver.add(("a", 1))
    driver.__exit__(KeyError, KeyError(), None)
    assert len(builder) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"cost": 5}, "cost must be callable, not 5"),
        ({"order_key": "k"}, "order_key must be callable, not 'k'"),
        ({"max_waiting": 0}, "max_waiting must be at least 1, not 0"),
    ],
)
def test_a_bad_argument_is_named(batcher: Batcher, arguments: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        EventTimeDriver(built(), batcher, Watcher(print), **arguments)


def test_a_clock_of_another_kind_than_the_builder_has_is_refused(batcher: Batcher) -> None:
    builder = built()
    builder.advance(datetime(2024, 1, 1))
    driver = EventTimeDriver(builder, batcher, Watcher(Seen()))
    with pytest.raises(ValueError, match="numbers after naive datetimes"):
        driver.start()


def test_the_clocks_return_the_present() -> None:
    assert abs(EpochClock().now() - time.time()) < 5
    aware = UtcClock().now()
    assert abs(aware - datetime.now(aware.tzinfo)) < timedelta(seconds=5)


def test_e7_in_real_time_with_datetimes(batcher: Batcher) -> None:
    builder = EventTimeBuilder[Any].by_event_time(
        0.05, 0.01, 60, key=itemgetter(0), event_time=itemgetter(1)
    )
    seen, clock, added = Seen(), UtcClock(), list[tuple[str, datetime]]()

    def one_comes_through() -> bool:
        if not added or clock.now() > added[-1][1] + timedelta(seconds=1):
            # From ahead: one that comes more than 0.01 s late is dropped.
            added.append(("a", clock.now() + timedelta(seconds=0.5)))
            driver.add(added[-1])
        return bool(raised(seen))

    with EventTimeDriver(builder, batcher, Watcher(seen), clock=clock) as driver:
        until(one_comes_through)
    [[message], *_] = raised(seen)
    assert message in added
    assert clock.now() - message[1] >= timedelta(seconds=0.06)


def test_e7_event_times_in_milliseconds_are_refused_and_not_dropped(batcher: Batcher) -> None:
    builder = EventTimeBuilder[Any].by_event_time(
        5, 5, 60, key=itemgetter(0), event_time=itemgetter(1)
    )
    clock = EpochClock()
    with EventTimeDriver(builder, batcher, Watcher(Seen()), clock=clock) as driver:
        for unit in (1e3, 1e6, 1e9):
            with pytest.raises(MeasurementError, match="looks like milliseconds or less, but the"):
                driver.add(("a", clock.now() * unit))
        assert builder.dropped == 0
        driver.add(("a", clock.now() + 3_600))
        assert builder.dropped == 1, "too far ahead, in seconds"
