"""Reservations for a block: laws V2, N1 and N3, also where a caller is interrupted."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from limiters import (
    ArgumentError,
    Costs,
    ExceedsCapacityError,
    ImproperOrderError,
    InFlight,
    LimiterStoppedError,
    Limits,
    ProvisionedResource,
    Rate,
    ReserveTimeoutError,
    SharedResource,
)
from limiters.testing import ManualClock
from tests.interrupting import ERRORS, SoftLimitError, each_point
from tests.samples import grid, sample
from tests.waiting import LONG, until

LIMITS = Limits(requests=Rate(1_000), tokens=Rate(10_000), calls=InFlight(2))
COST = {"requests": 1, "tokens": 100, "calls": 1}


@pytest.fixture
def limiter() -> Iterator[ProvisionedResource]:
    with ProvisionedResource(LIMITS) as one:
        yield one


def free_slots(limiter: ProvisionedResource) -> float:
    grant = limiter.grant({"calls": 2})
    grant.close()
    return (Costs() + grant.amount).amount("calls")


def test_n1_a_slot_is_taken_as_long_as_the_block(limiter: ProvisionedResource) -> None:
    with limiter.reserve(COST) as paid:
        assert paid.cost == COST
        assert free_slots(limiter) == 1
    assert free_slots(limiter) == 2


def test_n3_a_block_that_raises_frees_its_slot(limiter: ProvisionedResource) -> None:
    with pytest.raises(KeyError), limiter.reserve(COST):
        raise KeyError
    assert free_slots(limiter) == 2


def test_n1_those_who_wait_begin_as_calls_end(limiter: ProvisionedResource) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def call() -> None:
        nonlocal running, most
        for _ in range(20):
            with limiter.reserve({"calls": 1}):
                with lock:
                    running += 1
                    most = max(most, running)
                with lock:
                    running -= 1

    threads = [threading.Thread(target=call) for _ in range(5)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(LONG)
    assert most <= 2
    assert free_slots(limiter) == 2


def test_n3_coroutines_that_are_cancelled_while_they_wait_or_run(
    limiter: ProvisionedResource,
) -> None:
    async def call(begun: asyncio.Event) -> None:
        async with limiter.reserve(COST):
            begun.set()
            await asyncio.Event().wait()

    async def main() -> None:
        begun = [asyncio.Event() for _ in range(3)]
        tasks = [asyncio.create_task(call(one)) for one in begun]
        await asyncio.wait_for(asyncio.gather(begun[0].wait(), begun[1].wait()), LONG)
        assert not begun[2].is_set()
        for task in tasks[2], tasks[0]:
            task.cancel()
            await asyncio.wait([task])
        assert free_slots(limiter) == 1
        tasks[1].cancel()
        await asyncio.wait([tasks[1]])

    asyncio.run(main())
    assert free_slots(limiter) == 2
    assert limiter.standing().demand == Costs()


def test_c5_first_come_first_served_with_those_who_acquire(limiter: ProvisionedResource) -> None:
    order: list[str] = []

    def reserving() -> None:
        with limiter.reserve({"calls": 2}):
            order.append("reserve")

    def acquiring() -> None:
        limiter.acquire({"requests": 1})
        order.append("acquire")

    with limiter.reserve({"calls": 1}):
        first = threading.Thread(target=reserving)
        first.start()
        until(lambda: limiter.standing().demand == {"calls": 2})
        second = threading.Thread(target=acquiring)
        second.start()
        until(lambda: limiter.standing().demand == {"calls": 2, "requests": 1})
        assert order == []
    first.join(LONG)
    second.join(LONG)
    assert order == ["reserve", "acquire"]


def test_v2_what_takes_too_long_costs_nothing(limiter: ProvisionedResource) -> None:
    with (
        limiter.reserve({"calls": 2}),
        pytest.raises(ReserveTimeoutError, match=r"'calls': 1.* within 0\.01 s") as raised,
        limiter.reserve({"calls": 1, "tokens": 100}, timeout=0.01),
    ):
        pass
    assert (raised.value.cost, raised.value.timeout) == ({"calls": 1, "tokens": 100}, 0.01)
    assert limiter.standing().spent_reserved == {"calls": 2}


def test_a_reservation_is_for_one_block(limiter: ProvisionedResource) -> None:
    paid = limiter.reserve(COST)
    with paid:
        with pytest.raises(ImproperOrderError, match="was used; call reserve"), paid:
            pass
        assert free_slots(limiter) == 1, "the first block goes on"
    with pytest.raises(ImproperOrderError, match="was used; call reserve"), paid:
        pass
    assert free_slots(limiter) == 2


def test_b5_a_stop_reaches_those_who_wait(limiter: ProvisionedResource) -> None:
    raised: list[BaseException] = []

    def waiting() -> None:
        try:
            with limiter.reserve({"calls": 2}):
                raise AssertionError("it was granted")
        except LimiterStoppedError as error:
            raised.append(error)

    with limiter.reserve({"calls": 1}):
        thread = threading.Thread(target=waiting)
        thread.start()
        until(lambda: limiter.standing().demand == {"calls": 2})
        limiter.stop()
        thread.join(LONG)
    assert len(raised) == 1


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ({"calls": 0.5}, r"cost\['calls'\] must be a whole number, not 0.5"),
        ({"requests": 1, "toks": 1}, "cost must be of requests, tokens and calls alone"),
        (7, "cost must say of which dimension it is, not 7; as in {'requests': 7}"),
        ({"tokens": -1}, r"cost\['tokens'\] must be zero or more"),
    ],
)
def test_v7_a_cost_that_is_none_is_refused_before_the_block(
    limiter: ProvisionedResource, cost: dict[str, float], message: str
) -> None:
    for call in limiter.reserve, limiter.acquire:
        with pytest.raises(ArgumentError, match=message):
            call(cost)


def test_v7_what_exceeds_one_dimension_is_refused_by_its_name(limiter: ProvisionedResource) -> None:
    with pytest.raises(ExceedsCapacityError, match=r"costs 3 of calls, .* of 2 of calls") as error:
        limiter.reserve({"tokens": 5, "calls": 3})
    assert error.value.dimension == "calls"


@pytest.mark.parametrize(
    "limits", [LIMITS, Limits(calls=InFlight(5)), Limits(calls=Rate(5, counts="end"))]
)
def test_n1_acquire_refuses_what_lasts_as_long_as_a_call(limits: Limits) -> None:
    with (
        ProvisionedResource(limits) as limiter,
        pytest.raises(ArgumentError, match=r"without calls, .* use: with limiter.reserve\(cost\)"),
    ):
        limiter.acquire({"calls": 1})


@pytest.mark.parametrize(("cost", "error"), grid([{"calls": 1}, COST], ERRORS, every=3))
def test_n3_an_interrupted_reservation_loses_no_slot(
    error: type[BaseException], cost: dict[str, float]
) -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(LIMITS, clock=clock)
    limiter.start()

    def block() -> None:
        with limiter.reserve(cost, timeout=0):
            pass

    for where in each_point(lambda: block, error=error, step=3):
        clock.advance(2.1)
        assert free_slots(limiter) == 2, where
        with limiter.reserve({"calls": 2, "tokens": 10_000}, timeout=5):
            pass
        clock.advance(2.1)
        for ledger in limiter._ledgers:
            assert ledger.spent(clock.now()) == ledger.pledged == 0, where
        assert not limiter.standing().demand, where


RATE = Limits(units=Rate(100, burst=100))


def shared_reserve(limits: Limits, clock: ManualClock) -> SharedResource:
    return SharedResource(reserved_capacity=limits.most, clock=clock)


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize(
    ("limits", "cost", "kind"),
    [
        (RATE, 60, ProvisionedResource),
        (Limits(units=Rate(100, burst=100, counts="end")), 60, ProvisionedResource),
        (LIMITS, COST, ProvisionedResource),
        (RATE, 60, shared_reserve),
    ],
)
def test_v2_what_is_interrupted_before_its_block_is_free_at_that_moment(
    limits: Limits, cost: Any, kind: Callable[..., Any], looks: bool
) -> None:
    """A cost is free again, also if another caller has asked for capacity meanwhile."""
    limiter = kind(limits, clock=ManualClock())
    limiter.start()
    grant = limiter.grant(limits.most)
    before = grant.amount
    grant.close()
    begun: list[str] = []

    def block() -> None:
        with limiter.reserve(cost, timeout=0):
            begun.append("")

    def look() -> None:
        if looks:
            limiter.grant(cost).close()

    for where in each_point(lambda: block, error=SoftLimitError, first=look):
        if begun:
            break
        grant = limiter.grant(limits.most)
        assert grant.amount == before, where
        grant.close()
        [*spent] = [
            b.spent_reserved + b.excess_reserved - b.refunded_reserved
            for b in limiter.standing().bounds
        ]
        assert not any(spent), where


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", sample(ERRORS, every=3))
def test_n3_nor_one_of_coroutines(error: type[BaseException]) -> None:
    limiter = ProvisionedResource(LIMITS, clock=ManualClock())
    limiter.start()

    async def block() -> None:
        async with limiter.reserve({"calls": 1}, timeout=0):
            pass

    def prepare() -> Callable[[], object]:
        loop = asyncio.new_event_loop()
        loops.append(loop)
        return lambda: loop.run_until_complete(block())

    loops: list[asyncio.AbstractEventLoop] = []
    for where in each_point(prepare, error=error):
        loops.pop().close()
        if where.startswith(("Reservation._end", "Reservation.__aexit__")):
            gc.collect()  # asyncio keeps the exception, and so the frame, in a cycle
        assert free_slots(limiter) == 2, where
    for loop in loops:  # that of the last time, which nothing interrupted
        loop.close()
    gc.collect()  # here, where coroutines that were never awaited may be reported
