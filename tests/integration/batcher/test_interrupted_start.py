"""Signal handlers that run while a Batcher starts: they raise, or they stop it or another
Batcher."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

from dispatcher import Batcher, ImproperOrderError, Operation, ProvisionedResource, State, Watcher
from tests.interrupting import each_call_in, each_point

TIME = 20.0


class Program:
    """A Batcher that is about to start. `second`: another one runs on the same limiter already."""

    def __init__(self, *, second: bool = False) -> None:
        self.limiter = ProvisionedResource(100)
        self.batcher = Batcher(rate_limiter=self.limiter)
        self.batcher.enqueue(Operation(Watcher(lambda batch: None), 1, None))
        self.second = Batcher(rate_limiter=self.limiter)
        if second:
            self.second.start()

    def start(self) -> None:
        with suppress(ImproperOrderError):  # stopped before it has begun
            self.batcher.start()

    def handler_that_stops(self, batcher: Batcher) -> Callable[[], None]:
        def stop() -> None:
            sys.settrace(None)
            batcher.stop(drain=False)

        return stop

    def check(self, where: str) -> None:
        """Check that everything can be ended and has then ended."""
        thread = self.batcher._engine_thread._thread
        self.batcher.stop(timeout=TIME)
        self.second.stop(timeout=TIME)
        assert self.batcher.state is State.STOPPED, where
        assert not self.limiter.started, where
        if thread is not None:
            thread.join(TIME)
            assert not thread.is_alive(), where


def test_b5_a_handler_that_stops_the_batcher_while_it_starts() -> None:
    programs: list[Program] = []

    def prepare() -> tuple[Callable[[], object], Callable[[], object]]:
        programs.append(Program())
        return programs[-1].start, programs[-1].handler_that_stops(programs[-1].batcher)

    for where in each_call_in(prepare):
        assert programs[-1].batcher.state is State.STOPPED, where
        programs[-1].check(where)
    programs[-1].check("without a handler")


def test_b5_a_handler_that_stops_another_batcher_of_the_same_limiter() -> None:
    programs: list[Program] = []

    def prepare() -> tuple[Callable[[], object], Callable[[], object]]:
        programs.append(Program(second=True))
        return programs[-1].start, programs[-1].handler_that_stops(programs[-1].second)

    for where in each_call_in(prepare):
        assert programs[-1].limiter.started is (programs[-1].batcher.state is State.RUNNING), where
        programs[-1].check(where)
    programs[-1].check("without a handler")


def test_b5_a_handler_that_raises_leaves_no_limiter_started() -> None:
    programs: list[Program] = []

    def prepare() -> Callable[[], object]:
        programs.append(Program())
        return programs[-1].start

    for where in each_point(prepare):
        if programs[-1].batcher.state is State.NEW:
            assert not programs[-1].limiter.started, where
        programs[-1].check(where)
    programs[-1].check("without an exception")
