"""SharedResource on its real thread, with leases in memory, as users see it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dispatcher import Batcher, Operation, Watcher
from limiters import (
    ExceedsCapacityError,
    ImproperOrderError,
    LimiterStoppedError,
    MemoryLeaseManager,
    RateLimiter,
    SharedCapacityNotProvisionedError,
    SharedResource,
)
from limiters.leases import LimitView
from limiters.verifier import Spent, verify
from tests.clocks import JumpingClock
from tests.starts import Charging, began
from tests.waiting import LONG, Heard, until


def manager() -> MemoryLeaseManager:
    return MemoryLeaseManager(lease_time=10 * LONG)


def settings_with(leases: MemoryLeaseManager | None = None, **settings: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "shared_capacity": 1_000,
        "factor": 100,
        "lease_manager": leases or manager(),
        "max_interval": 0.1,
    }
    return usual | settings


def limiter_of(leases: MemoryLeaseManager | None = None, **settings: Any) -> SharedResource:
    return SharedResource(**settings_with(leases, **settings))


def in_thread(do: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Run it in a thread. Return the thread, and a list for its result or its error."""
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(do())
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, ended


# Wrong arguments.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shared_capacity": -1}, "shared_capacity must be zero or more, not -1"),
        ({"shared_capacity": float("inf")}, "shared_capacity must be finite, not inf"),
        ({"shared_capacity": "many"}, "shared_capacity must be a number, or limits .*, not 'many'"),
        (
            {"shared_capacity": True},
            "shared_capacity must be a number, Limits, or a text .*, not True",
        ),
        ({"shared_capacity": 5e-324}, "shared_capacity must be at least 1e-100, not 5e-324"),
        ({"shared_capacity": 1e308}, r"shared_capacity must be at most 1e\+100, not 1e\+308"),
        ({"reserved_capacity": 1e308}, r"reserved_capacity must be at most 1e\+100, not 1e\+308"),
        ({"max_interval": 10**308}, "max_interval must be at most 50 seconds, not 1"),
        ({"reserved_capacity": -0.5}, "reserved_capacity must be zero or more, not -0.5"),
        ({"factor": 0}, "factor must be more than zero, not 0"),
        ({"factor": float("nan")}, "factor must be finite, not nan"),
        ({"factor": 0.01}, "factor must be at least 0.1 for a capacity of 1000, not 0.01"),
        ({"max_interval": 0}, "max_interval must be more than zero seconds, not 0"),
        (
            {"max_interval": 60},
            "max_interval must be at most 50 seconds, not 60; a lease",
        ),
        ({"max_interval": "1"}, "max_interval must be a duration .*, not '1'"),
        ({"period": 0}, "period must be more than zero seconds, not 0"),
        ({"period": timedelta(seconds=-1)}, "period must be more than zero seconds, not"),
        ({"weight": 0}, "weight must be more than zero, not 0"),
        ({"weight": 0.0001}, "weight must be from 0.001 to 1000, not 0.0001"),
        ({"weight": 1e308}, r"weight must be from 0.001 to 1000, not 1e\+308"),
        ({"weight": None}, "weight must be a number, not None"),
        ({"ramp": 5}, "ramp must be .*, not 5"),
        ({"ramp": (5,)}, r"ramp must be .*, not \(5,\)"),
        ({"ramp": (0, 1)}, "ramp must be more than zero, not 0"),
        ({"ramp": (1, 0)}, "ramp must be more than zero seconds, not 0"),
        ({"ramp": (1e100, 1e-300)}, "ramp must be finite, not inf"),
        ({"ramp": (1e-300, 1e300)}, "ramp must be more than zero, not 0.0"),
        ({"lease_manager": None}, "lease_manager must be given to share .* of 1000, not None"),
        ({"lease_manager": MemoryLeaseManager}, "lease_manager must be .*, not <class"),
        ({"lease_manager": "redis://"}, "lease_manager must be .*, not 'redis://'"),
        ({"lease_manager": None, "shared_capacity": 0}, "reserved_capacity must be more than zero"),
        ({"shared_capacity": 0}, "shared_capacity must be more than zero where there is a lease"),
        ({"shared_capacity": 0, "reserved_capacity": 5}, "shared_capacity must be more than"),
    ],
)
def test_the_error_names_a_wrong_value(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        limiter_of(**settings)


def test_a_period_is_rounded_up_to_whole_milliseconds() -> None:
    periods = [(0.0011, 0.002), (0.0014, 0.002), (1 / 3, 0.334), (0.1 + 0.2, 0.3), (60, 60)]
    for given, used in periods:
        assert limiter_of(period=given).period == used


def test_an_amount_that_is_too_large_for_sums_is_refused() -> None:
    with limiter_of() as limiter:
        with pytest.raises(ValueError, match=r"^target must be at most 1e\+100, not 1e\+308"):
            limiter.give_me(1e308, "a caller")
        with pytest.raises(ValueError, match=r"^cost must be at most 1e\+100, not 1e\+308"):
            limiter.acquire(1e308, 1)


def test_it_is_a_rate_limiter_and_its_repr_shows_its_options() -> None:
    limiter = limiter_of(reserved_capacity=50)
    assert isinstance(limiter, RateLimiter)
    assert limiter.max_capacity == 1_050
    assert limiter.capacity == 50
    assert limiter.partitions == 0
    assert "shared_capacity=1000, reserved_capacity=50, factor=100" in repr(limiter)


# Its life.


def test_the_order_of_calls() -> None:
    limiter = limiter_of()
    with pytest.raises(ImproperOrderError, match="start"):
        limiter.stop()
    with pytest.raises(ImproperOrderError, match="start"):
        limiter.acquire(1)
    started = [limiter.started]
    limiter.start()
    started.append(limiter.started)
    with pytest.raises(ImproperOrderError, match="already started"):
        limiter.start()
    limiter.stop()
    limiter.stop()
    assert [*started, limiter.started] == [False, True, False]
    with pytest.raises(ImproperOrderError):
        limiter.start()
    with pytest.raises(ImproperOrderError):
        limiter.acquire(1)


def test_a_with_block_starts_and_stops_it_even_if_it_raises() -> None:
    limiter = limiter_of()
    with pytest.raises(ValueError, match="target"), limiter:
        limiter.give_me(-1)
    assert limiter._started
    assert not limiter.started


def test_stop_leaves_nothing_behind() -> None:
    leases = manager()
    before = set(threading.enumerate())

    def threads() -> set[threading.Thread]:
        return {it for it in threading.enumerate() if it.name == "SharedResource"} - before

    with limiter_of(leases) as limiter:
        assert threads()
        assert limiter.acquire(100, LONG)
        assert limiter.partitions
    assert limiter.partitions == 0
    view = leases.look()
    assert view is not None
    assert view.free == 1
    until(lambda: not threads())


def test_c2_spending_before_a_stop_counts_for_the_next_instance() -> None:
    leases = manager()
    with limiter_of(leases, period=30) as limiter:
        assert limiter.acquire(900, LONG)
    with limiter_of(leases, period=30) as other:
        assert not other.acquire(200, 0.3)
        assert other.acquire(50, LONG)


# Its events.


def test_the_events_from_start_to_stop() -> None:
    leases = manager()
    limiter = limiter_of(leases, shared_capacity=250, reserved_capacity=10)
    heard = Heard(limiter)
    limiter.start()
    heard.wait_for("provision-done")
    limiter.give_me(260)
    heard.wait_for("capacity", value=260)
    limiter.give_me(0)
    heard.wait_for("released", times=3)
    heard.wait_for("capacity", value=10, times=2)
    limiter.stop()
    heard.wait_for("shutdown")
    assert heard.names[:7] == [
        "provision-start",
        "capacity",
        "connected",
        "created-limit",
        "created-partition",
        "created-partition",
        "created-partition",
    ]
    assert heard.of("created-limit") == [250]
    created = [event.message for event in heard.events if event.name.startswith("created-")]
    assert created == [repr(leases)] * 4
    assert heard.of("created-partition") == [0, 1, 2]
    assert heard.of("target") == [260, 0]
    assert sorted(heard.of("allocated")) == sorted(heard.of("released")) == [0, 1, 2]
    assert heard.of("capacity") == [10, 260, 10]
    assert heard.names[-1] == "shutdown"
    assert "failed" not in heard.names
    assert "error" not in heard.names


def test_c2_each_partition_given_back_at_the_end_is_one_event() -> None:
    received: list[tuple[str, float]] = []
    limiter = SharedResource(
        shared_capacity=400, factor=100, lease_manager=MemoryLeaseManager(), max_interval=0.1
    )
    limiter.add_listener(
        lambda event: received.append((event.name, event.value)), "allocated", "released", "failed"
    )
    with limiter:
        limiter.give_me(400)
        until(lambda: [name for name, _ in received] == 4 * ["allocated"])
    assert sorted(received[4:]) == [("released", index) for index in range(4)]


def test_a_second_instance_verifies_the_limit_of_the_first_and_adopts_its_terms() -> None:
    leases = manager()
    with limiter_of(leases, shared_capacity=300) as first:
        until(lambda: leases.look())
        second = limiter_of(leases, shared_capacity=500, factor=50)
        heard = Heard(second)
        with second:
            heard.wait_for("provision-done")
            error = heard.wait_for("error")
            assert "shared capacity 300 (this instance was made with 500)" in error.message
            assert "factor 100" in error.message
            assert second.max_capacity == first.max_capacity == 300
            assert heard.of("verified-limit") == [300]
            assert heard.of("verified-partition") == [0, 1, 2]
            assert heard.names.count("error") == 1


def test_an_event_says_how_many_partitions_an_instance_did_not_get() -> None:
    leases = manager()
    with limiter_of(leases) as first, limiter_of(leases) as second:
        first.give_me(5_000)
        until(lambda: first.partitions == 10)
        heard = Heard(second)
        second.give_me(5_000)
        heard.wait_for("failed")
        until(lambda: first.partitions == second.partitions == 5)


def test_a_listener_can_be_removed_and_names_are_checked() -> None:
    limiter = limiter_of()
    with pytest.raises(ValueError, match=r"names must .* SharedResource, not 'batch'; .*allocated"):
        limiter.add_listener(print, "batch")
    received: list[str] = []
    with limiter.add_listener(lambda event: received.append(event.name), "connected"):
        pass
    with limiter:
        assert limiter.acquire(1, LONG)
    assert received == []


# Spending capacity.


def test_c1_reserved_and_shared_capacity_are_granted_together_and_no_more() -> None:
    with limiter_of(reserved_capacity=100, period=60) as limiter:
        assert limiter.max_capacity == 1_100
        assert limiter.acquire(1_100, LONG)
        assert limiter.capacity == 1_100
        assert not limiter.acquire(50, 0)


def test_reserved_capacity_alone_needs_no_lease_manager() -> None:
    limiter = SharedResource(reserved_capacity=50)
    heard = Heard(limiter)
    with limiter:
        assert limiter.acquire(5, LONG)
        assert limiter.acquire(50, LONG)
        with pytest.raises(SharedCapacityNotProvisionedError, match="no lease_manager"):
            limiter.set_shared_capacity(10)
        limiter.set_reserved_capacity(70)
        assert limiter.capacity == limiter.max_capacity == 70
        assert limiter.acquire(60, LONG)
    heard.wait_for("shutdown")
    assert heard.of("capacity") == [50, 70]
    assert heard.names[:3] == ["provision-start", "capacity", "provision-done"]


def test_c4_acquire_immediately_refuses_a_cost_that_could_never_be_granted() -> None:
    with limiter_of(reserved_capacity=100) as limiter:
        with pytest.raises(ExceedsCapacityError) as caught:
            limiter.acquire(1_101)
        assert (caught.value.cost, caught.value.max_capacity) == (1_101, 1_100)
        assert limiter.acquire(1_100, LONG)


def test_after_a_timeout_acquire_returns_false_and_nothing_is_wanted() -> None:
    with limiter_of(period=60) as limiter:
        assert limiter.acquire(1_000, LONG)
        assert not limiter.acquire(100, 0)
        assert not limiter.acquire(100, 0.05)
        assert not limiter.acquire(100, timedelta(seconds=0.05))
        heard = Heard(limiter)
        limiter.give_me(1)
        assert heard.wait_for("target").value == 1


def test_first_come_first_served_among_threads_and_coroutines() -> None:
    clock = JumpingClock()
    with limiter_of(period=60, clock=clock) as limiter:
        heard = Heard(limiter)
        assert limiter.acquire(1_000, LONG)
        big, _ = in_thread(lambda: limiter.acquire(500))
        heard.wait_for("target", value=500)
        small, _ = in_thread(lambda: asyncio.run(limiter.acquire_async(1)))
        heard.wait_for("target", value=501)
        clock.advance(61)
        big.join(LONG)
        small.join(LONG)
    heard.wait_for("shutdown")
    # The target shows which caller has left the line: the large one first.
    assert heard.of("target") == [1_000, 0, 500, 501, 1, 0]


def test_a_coroutine_that_is_cancelled_lets_the_next_one_through() -> None:
    async def scenario(limiter: SharedResource) -> None:
        assert await limiter.acquire_async(900, LONG)
        first = asyncio.create_task(limiter.acquire_async(1_000))
        second = asyncio.create_task(limiter.acquire_async(50))
        await asyncio.sleep(0)
        first.cancel()
        assert await asyncio.wait_for(second, LONG)
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not await limiter.acquire_async(1_000, 0)

    with limiter_of(period=30) as limiter:
        asyncio.run(scenario(limiter))


def test_stop_ends_every_waiting_call() -> None:
    limiter = limiter_of(period=60)
    limiter.start()
    heard = Heard(limiter)
    assert limiter.acquire(1_000, LONG)
    waiting = [in_thread(lambda: limiter.acquire(100)) for _ in range(5)]
    waiting.append(in_thread(lambda: asyncio.run(limiter.acquire_async(100))))
    heard.wait_for("target", value=600)
    limiter.stop()
    for thread, ended in waiting:
        thread.join(LONG)
        assert isinstance(ended[0], LimiterStoppedError)


def test_c1_with_fifty_threads_no_window_is_over_the_limit() -> None:
    limiter = Charging(**settings_with(shared_capacity=2_000, reserved_capacity=100))
    with limiter:

        def work() -> None:
            for _ in range(2):
                assert limiter.acquire(60, LONG)

        threads = [in_thread(work) for _ in range(50)]
        for thread, ended in threads:
            thread.join(LONG)
            assert ended == [None]
        until(lambda: limiter.capacity == 100)
    assert len(limiter.log) == 100
    assert verify(limiter.log, 2_100).holds


# Batchers that use it.


def note_into(log: list[Spent], name: str) -> Watcher:
    def note(batch: list[Operation]) -> None:
        log.append(Spent(began(), name, sum(one.cost for one in batch)))

    return Watcher(note)


def test_c1_several_batchers_on_one_limiter_and_on_several() -> None:
    leases, log = manager(), list[Spent]()
    with limiter_of(leases, shared_capacity=3_000) as one, limiter_of(leases) as other:
        until(lambda: other.max_capacity == 3_000)
        batchers = [Batcher(rate_limiter=limiter) for limiter in (one, one, other)]
        for number, batcher in enumerate(batchers):
            batcher.start()
            watcher = note_into(log, str(number))
            for payload in range(150):
                batcher.enqueue(Operation(watcher, 10, payload, batchable=True))
        for batcher in batchers:
            assert batcher.drain(LONG)
            assert batcher.stop() == []
        assert one.started
    assert sum(entry.cost for entry in log) == 3 * 150 * 10
    assert verify(log, 3_000).holds


def test_a_batcher_starts_and_stops_a_limiter_that_was_not_started() -> None:
    limiter, log = limiter_of(), list[Spent]()
    with Batcher(rate_limiter=limiter) as batcher:
        assert limiter.started
        batcher.enqueue(Operation(note_into(log, "a"), 1_000, "all of it"))
    assert [entry.cost for entry in log] == [1_000]
    assert not limiter.started


# Changes of its capacity.


def test_c9_all_instances_adopt_a_new_capacity() -> None:
    leases = manager()
    with limiter_of(leases) as one, limiter_of(leases, reserved_capacity=5) as other:
        one.give_me(9_000)
        other.give_me(9_000)
        until(lambda: one.partitions == other.partitions == 5)
        one.set_shared_capacity(400)
        assert one.max_capacity == 400
        until(lambda: other.max_capacity == 405)
        until(lambda: one.partitions == other.partitions == 2)
        other.set_shared_capacity(1_250)
        until(lambda: one.partitions + other.partitions == pytest.approx(13))
        assert one.max_capacity == 1_250
        until(lambda: one.capacity + other.capacity == pytest.approx(1_255))


@pytest.mark.parametrize("joined", [False, True])
def test_c9_a_change_of_the_capacity_does_not_change_the_factor(joined: bool) -> None:
    leases = manager()

    def look() -> LimitView:
        view = leases.look()
        assert view is not None
        return view

    other = limiter_of(leases, factor=100 if joined else 10)
    with limiter_of(leases) as holder:
        holder.give_me(9_000)
        until(lambda: holder.capacity == 1_000)
        if joined:  # and is idle while an operator changes the factor
            other.start()
            until(lambda: len(look().instances) == 2)
            assert leases.set_terms(factor=50)
        other.set_shared_capacity(900)
        assert look().terms.factor == (50 if joined else 100)
        assert not look().uncertain_ms
        until(lambda: holder.capacity == 900)
    if joined:
        other.stop()


@pytest.mark.parametrize("bad", [0, -1, float("nan"), "9"])
def test_the_error_names_a_wrong_capacity(bad: float) -> None:
    with limiter_of() as limiter:
        with pytest.raises(ValueError, match=r"^capacity must be .*, not"):
            limiter.set_shared_capacity(bad)
        if bad:
            with pytest.raises(ValueError, match=r"^capacity must be .*, not"):
                limiter.set_reserved_capacity(bad)
        with pytest.raises(ValueError, match=r"^factor must be at least 200 "):
            limiter.set_shared_capacity(2_000_000)
        assert limiter.max_capacity == 1_000


@pytest.mark.parametrize("shared", [True, False])
def test_c9_operations_that_no_longer_fit_fail_through_on_failure(shared: bool) -> None:
    failed: list[tuple[list[object], BaseException]] = []

    def on_failure(operations: list[Operation], error: BaseException) -> None:
        failed.append(([one.payload for one in operations], error))

    log: list[Spent] = []
    clock = JumpingClock()
    limiter = limiter_of(
        shared_capacity=1_000 if shared else 100,
        reserved_capacity=0 if shared else 900,
        period=60,
        clock=clock,
    )
    watcher = Watcher(note_into(log, "a").on_batch, on_failure=on_failure)
    with limiter, Batcher(rate_limiter=limiter, clock=clock) as batcher:
        assert limiter.acquire(limiter.max_capacity, LONG)
        batcher.enqueue(Operation(watcher, 800, "large"))
        batcher.enqueue(Operation(watcher, 20, "small"))
        if shared:
            limiter.set_shared_capacity(300)
        else:
            limiter.set_reserved_capacity(200)
        until(lambda: failed)
        assert failed[0][0] == ["large"]
        assert isinstance(failed[0][1], ExceedsCapacityError)
        with pytest.raises(ExceedsCapacityError):
            batcher.enqueue(Operation(watcher, 800, "large"))
        clock.advance(61)
        assert batcher.drain(LONG)
    assert [entry.cost for entry in log] == [20]


def test_c9_a_waiting_call_whose_cost_no_longer_fits_raises() -> None:
    with limiter_of(reserved_capacity=500, shared_capacity=100, period=60) as limiter:
        heard = Heard(limiter)
        assert limiter.acquire(600, LONG)
        thread, ended = in_thread(lambda: limiter.acquire(550))
        heard.wait_for("target", value=550)
        limiter.set_reserved_capacity(20)
        thread.join(LONG)
        assert isinstance(ended[0], ExceedsCapacityError)


# Few requests.


class Counting(MemoryLeaseManager):
    """Counts the requests that it receives."""

    calls = 0

    def sync(self, request: Any) -> Any:
        self.calls += 1
        return super().sync(request)


def test_c6_an_idle_limiter_sends_no_request() -> None:
    leases = Counting(lease_time=1)
    limiter = limiter_of(leases)
    heard = Heard(limiter)
    with limiter:
        assert limiter.acquire(100, LONG)
        heard.wait_for("released")
        # It has given everything back, and now it sleeps until it is woken.
        until(lambda: limiter._next_request()[1] is None)
        calls = leases.calls
        assert not threading.Event().wait(0.5)
        assert leases.calls == calls
        assert limiter.acquire(100, LONG)
        assert leases.calls > calls
