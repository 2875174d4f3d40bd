"""Real signals at random times, in a thread that enqueues and acquires: laws B2, B3 and C3."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from dispatcher import Batcher, BatcherStoppedError, Operation, State, Watcher
from limiters import ProvisionedResource
from tests.interrupting import LONG, Alarm

ROUNDS = 300 if LONG else 25
LATEST = 0.02
"""Seconds before the signal comes, at most."""


AGAIN = 1.0
"""Seconds before the signal comes again."""


class Program:
    """A program that feeds one Batcher until it is interrupted."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.seen: list[Operation] = []
        self.made: list[Operation] = []
        self.limiter = ProvisionedResource(1e9)
        self.batcher = Batcher(
            rate_limiter=self.limiter,
            max_buffer_size=choose.choice([3, 1_000]),
            flush_interval=0.002,
        )
        self.watcher = Watcher(self.seen.extend, max_batch_size=choose.choice([None, 2]))

    def make(self, count: int) -> list[Operation]:
        some = [Operation(self.watcher, 1, None, batchable=bool(n % 5)) for n in range(count)]
        self.made += some
        return some

    def make_one(self) -> Operation:
        return self.make(1)[0]

    def step(self) -> None:
        """Make one call, chosen at random."""
        batcher = self.batcher
        calls: list[Callable[[], object]] = [
            lambda: batcher.enqueue(self.make(1)[0]),
            lambda: batcher.enqueue(self.make(1)[0]),
            lambda: batcher.enqueue_many(self.make(7)),
            lambda: self.limiter.acquire(1),
            lambda: self.limiter.acquire(1),
            lambda: batcher.drain(0.001),
            lambda: batcher.needs_capacity,
        ]
        self.choose.choice(calls)()

    def check(self) -> None:
        """Check that each accepted operation has ended once, and that later calls lose nothing."""
        batcher = self.batcher
        returned = batcher.stop(drain=False)
        assert batcher.state == State.STOPPED
        assert batcher.needs_capacity == batcher.operations_in_buffer == 0
        ended = [*self.seen, *returned]
        assert len(set(map(id, ended))) == len(ended)
        with Batcher() as other:
            left = set(self.made) - set(ended)
            for operation in left:
                other.enqueue(operation)
        assert set(self.seen) | set(returned) == set(self.made)
        with ProvisionedResource(10) as limiter:
            assert limiter.acquire(10, 20)


@pytest.fixture
def alarms() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [KeyboardInterrupt, Alarm])
def test_b2_a_handler_that_raises_loses_nothing(alarms: None, error: type[BaseException]) -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        raise error

    signal.signal(signal.SIGALRM, handler)
    choose = random.Random(5)
    for _ in range(ROUNDS):
        program = Program(choose)
        program.batcher.start()
        try:
            # The signal is repeated: Python ignores an exception inside a finalizer or a weakref's
            # callback.
            signal.setitimer(signal.ITIMER_REAL, choose.uniform(1e-4, LATEST), AGAIN)
            while True:
                program.step()
        except error:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert program.limiter.acquire(1e8, 20), "an acquire that was interrupted is in the way"
        program.check()


def feed(batcher: Batcher, make: Callable[[], Operation]) -> None:
    """Enqueue operations until the Batcher is stopped."""
    try:
        while True:
            batcher.enqueue(make())
    except BatcherStoppedError:
        pass


def test_b5_a_handler_that_stops_the_batcher_never_waits_for_its_own_thread(
    alarms: None,
) -> None:
    choose = random.Random(6)
    for _ in range(ROUNDS):
        program = Program(choose)
        batcher = program.batcher
        batcher.start()

        def handler(number: int, frame: object, batcher: Batcher = batcher) -> None:
            batcher.stop(drain=False)

        def feed_others(batcher: Batcher = batcher) -> None:
            watcher = Watcher(lambda batch: None)
            feed(batcher, lambda: Operation(watcher, 1, None, batchable=True))

        signal.signal(signal.SIGALRM, handler)
        feeding = threading.Thread(target=feed_others)
        feeding.start()
        signal.setitimer(signal.ITIMER_REAL, choose.uniform(1e-4, LATEST))
        feed(batcher, program.make_one)
        feeding.join(20)
        assert not feeding.is_alive()
        assert batcher.state == State.STOPPED
        assert batcher.needs_capacity == 0
        mine = [*program.seen, *(one for one in batcher.returned if one in set(program.made))]
        assert len(mine) == len(set(mine)) == len(program.made) - 1  # the last one was refused
