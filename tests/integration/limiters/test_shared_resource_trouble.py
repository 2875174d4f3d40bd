"""SharedResource on its real thread, with lease managers that fail: laws C7 and C8."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import pytest

from limiters import MemoryLeaseManager, SharedResource
from limiters.errors import LeaseManagerError
from limiters.events import Event
from limiters.leases._messages import Kind, Reply, Request, Terms
from tests.waiting import LONG, Heard, until


class Moody(MemoryLeaseManager):
    """A user's lease manager. `mood` may raise, block, or return another answer."""

    def __init__(self) -> None:
        super().__init__(lease_time=1)
        self.mood: Callable[[], object] = lambda: None
        self.served = 0

    def sync(self, request: Request) -> Reply:
        instead = self.mood()
        if instead is not None:
            return instead  # type: ignore[return-value]
        self.served += 1
        return super().sync(request)


def limiter_of(manager: MemoryLeaseManager, **settings: float) -> SharedResource:
    return SharedResource(
        shared_capacity=1_000,
        factor=100,
        lease_manager=manager,
        max_interval=0.1,
        **settings,  # type: ignore[arg-type]
    )


def raising(error: BaseException) -> Callable[[], object]:
    def mood() -> object:
        raise error

    return mood


@pytest.mark.parametrize(
    "error",
    [
        LeaseManagerError("no answer"),
        ZeroDivisionError("a bug"),
        SystemExit(1),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_c7_the_limiter_goes_on_after_any_error_of_its_lease_manager(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    manager = Moody()
    limiter = limiter_of(manager, reserved_capacity=10)
    heard = Heard(limiter)
    with limiter:
        assert limiter.acquire(20, LONG)
        manager.mood = raising(error)
        limiter.give_me(100)
        assert heard.wait_for("disconnected").metadata is error
        heard.wait_for("capacity", value=10)
        assert limiter.acquire(5, LONG)
        manager.mood = lambda: None
        heard.wait_for("connected", times=2)
        assert limiter.acquire(20, LONG)
        logged = [it.message.split(":")[1] for it in caplog.records if "limiters" in it.name]
        assert logged == [
            " requests are not served; only what is still held can be spent",
            " requests are served again, and shared capacity is requested",
        ]
    assert heard.names.count("disconnected") == 1
    assert heard.names.count("error") == 1


def test_c7_an_answer_of_a_wrong_type_is_reported_and_the_limiter_goes_on() -> None:
    manager = Moody()
    manager.mood = lambda: "an answer"
    limiter = limiter_of(manager)
    heard = Heard(limiter)
    with limiter:
        assert "an answer" in heard.wait_for("disconnected").message
        manager.mood = lambda: None
        assert limiter.acquire(20, LONG)


def test_c7_an_idle_limiter_does_not_report_whether_it_is_connected() -> None:
    manager = Moody()
    limiter = limiter_of(manager)
    with limiter:
        for _ in range(2):
            limiter.give_me(100)
            until(lambda: limiter.standing().connected)
            manager.mood = raising(LeaseManagerError("no answer"))
            until(lambda: limiter.standing().connected is False)
            limiter.give_me(0)
            # it sends nothing, so it has no answer
            until(lambda: limiter.standing().connected is None)
            manager.mood = lambda: None
        manager.mood = raising(LeaseManagerError("no answer"))
        limiter.give_me(100)
        until(lambda: limiter.standing().connected is False)
    assert limiter.standing().connected is None


def test_stop_does_not_wait_for_a_lease_manager_that_never_answers() -> None:
    manager = Moody()
    answers = threading.Event()
    hangs = threading.Event()

    def hang() -> None:
        hangs.set()
        answers.wait(3 * LONG)

    limiter = limiter_of(manager)
    limiter.start()
    manager.mood = hang
    limiter.give_me(10)
    assert hangs.wait(LONG)
    stopper = threading.Thread(target=limiter.stop, daemon=True)
    stopper.start()
    stopper.join(LONG)
    assert not stopper.is_alive()
    assert not limiter.started
    answers.set()


@pytest.mark.parametrize("target", [float("inf"), float("nan"), -1, "1", None])
def test_the_error_names_a_wrong_target_and_the_limiter_goes_on(target: object) -> None:
    with limiter_of(Moody()) as limiter:
        with pytest.raises(ValueError, match=r"^target must be .*, not"):
            limiter.give_me(target)
        assert limiter.acquire(20, LONG)


def test_a_listener_may_raise_or_stop_the_limiter() -> None:
    limiter = limiter_of(Moody())
    stopped = threading.Event()

    def stop(event: Event) -> None:
        limiter.stop()
        stopped.set()
        raise KeyboardInterrupt

    limiter.add_listener(stop, "allocated")
    heard = Heard(limiter)
    limiter.start()
    limiter.give_me(100)
    assert stopped.wait(LONG)
    heard.wait_for("shutdown")


def test_c7_errors_with_different_texts_do_not_flood_the_listeners() -> None:
    manager = Moody()
    numbers = itertools.count()
    asked = threading.Semaphore(0)

    def mood() -> object:
        asked.release()
        raise LeaseManagerError(f"no answer from node {next(numbers)}")

    manager.mood = mood
    limiter = limiter_of(manager)
    heard = Heard(limiter)
    limiter.give_me(10)
    with limiter:
        for _ in range(12):
            assert asked.acquire(timeout=LONG)
        manager.mood = lambda: None
        heard.wait_for("connected")
    assert heard.names.count("disconnected") == 1
    assert 1 <= heard.names.count("error") <= 5


def test_after_an_impossible_reply_only_reserved_capacity_can_be_used() -> None:
    manager = Moody()
    limiter = limiter_of(manager, reserved_capacity=10)
    heard = Heard(limiter)
    with limiter:
        assert limiter.acquire(20, LONG)
        manager.mood = lambda: Reply.scalar(Kind.ANSWER, units="0-9")
        limiter.give_me(100)
        assert "requested any more" in heard.wait_for("error").message
        assert isinstance(limiter.broken, Exception)
        until(lambda: limiter.capacity == 10)
        assert limiter.acquire(10, LONG)


def test_c6_a_lease_without_a_length_does_not_cause_constant_requests() -> None:
    manager = Moody()
    limiter = limiter_of(manager)
    asked: list[float] = []

    def mood() -> object:
        asked.append(time.monotonic())
        return Reply.scalar(Kind.ANSWER, terms=Terms.scalar(1_000, 100, 1_000, 0))

    manager.mood = mood
    limiter.give_me(100)
    with limiter:
        until(lambda: len(asked) >= 12)
    assert asked[11] - asked[0] >= 5 * 0.05
