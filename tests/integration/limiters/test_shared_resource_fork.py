"""A process that forks while it holds capacity: law B10 for limiters, and C2."""

from __future__ import annotations

import threading

import pytest

from limiters import ImproperOrderError, MemoryLeaseManager, SharedResource
from tests.forking import exit_code_of
from tests.waiting import LONG

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def test_b10_in_a_child_the_limiter_is_another_instance_that_is_not_started() -> None:
    limiter = SharedResource(
        shared_capacity=100, reserved_capacity=7, lease_manager=MemoryLeaseManager()
    )
    with limiter:
        assert limiter.acquire(20, LONG)
        parent = limiter.instance

        def child() -> bool:
            is_new = limiter.instance != parent and not limiter.started
            is_new = is_new and limiter.partitions == 0 and limiter.capacity == 7
            with pytest.raises(ImproperOrderError):
                limiter.acquire(1, 1)
            with limiter:
                return is_new and limiter.acquire(20, LONG)

        assert exit_code_of(child) == 0
        assert limiter.instance == parent
        assert limiter.acquire(20, LONG)


def test_b10_a_fork_while_a_thread_holds_the_lock_does_not_lock_the_child() -> None:
    manager = MemoryLeaseManager()
    limiter = SharedResource(shared_capacity=100, lease_manager=manager)
    inside, done = threading.Event(), threading.Event()

    def use() -> None:
        with manager._lock:
            inside.set()
            done.wait(3 * LONG)

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    assert inside.wait(LONG)

    def child() -> bool:
        with limiter:
            return limiter.acquire(20, LONG)

    try:
        assert exit_code_of(child) == 0
    finally:
        done.set()
        thread.join()
