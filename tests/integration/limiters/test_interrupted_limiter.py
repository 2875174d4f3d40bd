"""SharedResource.start() and stop() are interrupted at any point: no call waits without end, and no
capacity stays leased."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from limiters import ImproperOrderError, MemoryLeaseManager, SharedResource
from tests.interrupting import each_call_in, each_point
from tests.waiting import LONG, Heard, until


class Held:
    """A limiter that holds a part of a limit, and asks for more."""

    def __init__(self) -> None:
        self.manager = MemoryLeaseManager(lease_time=60)
        self.limiter = SharedResource(shared_capacity=100, lease_manager=self.manager)
        self.heard = Heard(self.limiter)

    def begun(self) -> Held:
        self.limiter.start()
        assert self.limiter.acquire(20, LONG)
        self.limiter.give_me(1_000, "a caller")
        return self

    def await_free(self) -> None:
        """Wait until nothing of the limit is leased any more."""
        until(lambda: (view := self.manager.look()) is None or view.free == 1)


def threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "SharedResource"}


def stopped_at_each_point() -> Iterator[Held]:
    """Iterate over limiters with a lease whose `stop()` was interrupted at one point after the
    other."""
    made: list[Held] = []

    def prepare() -> Callable[[], object]:
        made.append(Held().begun())
        return made[-1].limiter.stop

    for _ in each_point(prepare):
        yield made.pop()


def test_b5_an_interrupted_stop_gives_back_what_is_held() -> None:
    for one in stopped_at_each_point():
        one.limiter.stop()
        one.await_free()
        until(lambda: not threads())
        one.heard.wait_for("shutdown")


def test_b5_an_interrupted_stop_gives_back_what_is_held_even_without_another_stop() -> None:
    for one in stopped_at_each_point():
        if one.limiter.started:  # it was interrupted before it had begun
            one.limiter.stop()
        one.limiter._wake()  # as the next event does
        one.await_free()


def test_b5_a_handler_may_stop_a_limiter_that_is_being_stopped() -> None:
    made: list[Held] = []

    def prepare() -> tuple[Callable[[], object], Callable[[], object]]:
        made.append(Held().begun())
        return made[-1].limiter.stop, made[-1].limiter.stop

    for _ in each_call_in(prepare):
        one = made.pop()
        one.await_free()
        one.heard.wait_for("shutdown")


def test_after_an_interrupted_start_no_call_waits_without_end() -> None:
    made: list[Held] = []

    def prepare() -> Callable[[], object]:
        made.append(Held())
        return made[-1].limiter.start

    for where in each_point(prepare):
        one = made.pop()
        if one.limiter.started:  # no interrupt came
            assert one.limiter.acquire(20, LONG), where
            one.limiter.stop()
        else:
            with pytest.raises(ImproperOrderError):
                one.limiter.acquire(20)
        until(lambda: not threads())
        one.await_free()
