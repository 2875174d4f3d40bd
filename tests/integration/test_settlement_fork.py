"""A process that forks while its calls run: what a child says of their costs is refused, since
their charges are in the parent. Laws B10 and Z3."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from dispatcher import Batcher, Operation, ProvisionedResource, Watcher, settle
from limiters import ImproperOrderError, MemoryLeaseManager, SettlementError, SharedResource
from limiters.limiter import RateLimiter
from tests.forking import exit_code_of
from tests.waiting import LONG

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def is_refused(call: Callable[[], object]) -> bool:
    with pytest.raises(SettlementError, match=r"forked after .* began; settle it in the parent"):
        call()
    return True


@contextmanager
def running(limiter: RateLimiter | None) -> Iterator[list[Operation]]:
    """A batch whose callback runs until the block ends, and settles it then."""
    begun, end = threading.Event(), threading.Event()
    batches: list[list[Operation]] = []

    def callback(batch: list[Operation]) -> None:
        batches.append(batch)
        begun.set()
        assert end.wait(LONG)
        settle(batch, 4)

    with Batcher(rate_limiter=limiter) as batcher:
        batcher.enqueue(Operation(Watcher(callback), 10, None))
        assert begun.wait(LONG)
        yield batches[0]
        end.set()
        batcher.drain()
    assert batcher.totals.done == 1


@pytest.mark.parametrize("limited", [True, False])
def test_b10_a_batch_cannot_be_settled_in_a_forked_child(limited: bool) -> None:
    limiter = ProvisionedResource(100, period=60) if limited else None
    with running(limiter) as batch:
        for call in (lambda: settle(batch, 1), lambda: batch[0].settle(1)):
            assert exit_code_of(partial(is_refused, call)) == 0
    if limiter is not None:
        assert limiter.standing().bounds[0].refunded_reserved == 6


def test_b10_nor_in_a_child_that_its_own_callback_forks() -> None:
    codes: list[int] = []

    def callback(batch: list[Operation]) -> None:
        codes.append(exit_code_of(lambda: is_refused(lambda: settle(batch, 1))))

    with Batcher(rate_limiter=ProvisionedResource(100)) as batcher:
        batcher.enqueue(Operation(Watcher(callback), 10, None))
        batcher.drain()
    assert codes == [0]


def test_a_batch_of_the_child_itself_is_settled() -> None:
    def child() -> bool:
        limiter = ProvisionedResource(100, period=60)
        with running(limiter):
            pass
        return limiter.standing().bounds[0].refunded_reserved == 6

    with running(None):
        assert exit_code_of(child) == 0


@pytest.fixture(params=["alone", "shared"])
def limiter(request: pytest.FixtureRequest) -> Iterator[ProvisionedResource | SharedResource]:
    with (
        ProvisionedResource(100, period=60)
        if request.param == "alone"
        else SharedResource(shared_capacity=100, period=60, lease_manager=MemoryLeaseManager())
    ) as one:
        yield one


def test_b10_a_reservation_cannot_be_settled_in_a_forked_child(
    limiter: ProvisionedResource | SharedResource,
) -> None:
    def restarted() -> bool:
        with limiter:
            return is_refused(lambda: paid.settle(1))

    with limiter.reserve(10, timeout=LONG) as paid:
        assert exit_code_of(lambda: is_refused(lambda: paid.settle(1))) == 0
        assert exit_code_of(restarted) == 0
        paid.settle(4)
    [bound] = limiter.standing().bounds
    assert bound.refunded_reserved + bound.refunded_shared == 6


def test_b10_a_reservation_of_the_parent_does_not_begin_in_a_forked_child(
    limiter: ProvisionedResource | SharedResource,
) -> None:
    waits = limiter.reserve(10)

    def child() -> bool:
        with limiter:
            with pytest.raises(ImproperOrderError, match=r"made before .* forked; call"), waits:
                pass
            with limiter.reserve(10, timeout=LONG) as own:
                own.settle(5)
        return True

    assert exit_code_of(child) == 0
