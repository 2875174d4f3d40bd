"""Arguments: which values are taken, and how the others are refused."""

from __future__ import annotations

import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tenacity import stop_after_delay, wait_fixed

from dispatcher import Batcher, Operation, Watcher
from dispatcher.registration import MemoryEntityStore, RegistrationGate
from limiters import (
    ArgumentError,
    ExceedsCapacityError,
    LimiterConfig,
    MemoryLeaseManager,
    ProvisionedResource,
    SharedResource,
)
from limiters._support.validation import UNSHOWN, amount, count, named, seconds, text
from limiters.testing import ManualClock
from limiters.verifier import verify
from tests.crank import ignore

PACKAGES = [Path(__file__).parents[3] / name for name in ("dispatcher", "limiters")]


def shared(capacity: float) -> SharedResource:
    return SharedResource(shared_capacity=capacity, lease_manager=MemoryLeaseManager())


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (20_000, 20_000),
        (np.int64(20_000), 20_000),
        (np.uint8(7), 7),
        (np.float32(0.5), 0.5),
        (Fraction(1, 2), 0.5),
        (Decimal("0.5"), 0.5),
    ],
)
def test_a_number_of_another_library_is_a_capacity(given: Any, taken: float) -> None:
    assert amount("capacity", given) == taken
    assert type(amount("capacity", given)) is type(taken)
    assert seconds("period", given) == taken
    limiter = ProvisionedResource(given)
    limiter.set_capacity(given)
    assert limiter.max_capacity == taken
    assert LimiterConfig(reserved_capacity=given).build().max_capacity == taken
    assert SharedResource(
        shared_capacity=given, factor=given, lease_manager=MemoryLeaseManager()
    ).max_capacity == pytest.approx(taken)


def test_a_count_of_another_library_is_a_count() -> None:
    assert count("max_batch_size", np.int32(5)) == 5
    assert Watcher(ignore, max_batch_size=np.int64(3)).max_batch_size == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2**2000, float("inf"), float("nan"), Decimal("sNaN")])
def test_a_capacity_that_no_float_can_hold_is_named(value: Any) -> None:
    limiter = ProvisionedResource(100)
    with pytest.raises(ArgumentError, match=r"^capacity must be finite") as caught:
        limiter.set_capacity(value)
    assert caught.value.parameter == "capacity"
    assert limiter.max_capacity == 100


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "5", None])
@pytest.mark.parametrize("limiter", [ProvisionedResource, shared], ids=["provisioned", "shared"])
def test_what_is_asked_of_a_limiter_is_an_amount(limiter: Any, value: Any) -> None:
    with limiter(10) as one:
        for call, name in [(one.acquire, "cost"), (one.grant, "up_to"), (one.give_me, "target")]:
            with pytest.raises(ArgumentError, match=rf"^{name} must be "):
                call(value)
        with pytest.raises(ArgumentError, match=r"^at_least must be "):
            one.grant(5, value)


@pytest.mark.parametrize("value", [True, "5", None, 1j, np.bool_(True), np.array([1, 2])])
def test_what_is_no_number_is_named(value: Any) -> None:
    for check in (amount, seconds, count):
        with pytest.raises(ArgumentError, match=r"^size must be a "):
            check("size", value)


@pytest.mark.parametrize("most", ["max_buffer_size", "max_concurrent_batches"])
def test_a_count_that_no_machine_reaches_is_named(most: str) -> None:
    arguments: dict[str, Any] = {most: 10**30}
    with pytest.raises(ArgumentError, match=rf"^{most} must be at most {sys.maxsize}, not 1"):
        Batcher(**arguments)


def test_a_value_that_cannot_be_shown_in_full_is_named_all_the_same() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError("no name")

    shown = "0" * 199
    for value, said in [
        (10**5000, "an object of class int"),  # Python writes no number that is so long
        (10**2000, f"1{shown}..."),
        (Silent(), f"an object of class {Silent.__qualname__}"),
    ]:
        with pytest.raises(ArgumentError, match=rf"^name must be .*, not {re.escape(said)}$"):
            text("name", value)


@pytest.mark.parametrize(
    ("parameter", "give"),
    [
        ("fn", lambda: Batcher().add_listener(generate)),
        ("names", lambda: Batcher().add_listener(print, "capacity")),
        ("names", lambda: Batcher().add_listener(print, cast(Any, ["pause"]))),
        ("on_batch", lambda: Watcher(generate)),
        ("retry_abandoned", lambda: Watcher(ignore, retry_abandoned=True)),
        ("retry", lambda: Watcher(ignore, retry=cast(Any, wait_fixed))),
        ("retry", lambda: Watcher(ignore, retry=(wait_fixed(1), cast(Any, stop_after_delay)))),
        ("pause_time", lambda: Batcher(pause_time=cast(Any, wait_fixed))),
        ("clock", lambda: Batcher(clock=cast(Any, 5))),
        ("clock", lambda: ProvisionedResource(5, clock=cast(Any, ManualClock))),
        ("clock", lambda: MemoryLeaseManager(clock=cast(Any, 0))),
        ("seconds", lambda: ManualClock().advance(cast(Any, "5"))),
        ("seconds", lambda: ManualClock().advance(-5)),
        ("name", lambda: MemoryLeaseManager(cast(Any, 5))),
        ("late", lambda: verify([], 1, late=1)),
        (
            "factor",
            lambda: LimiterConfig(url="redis://", name="a", shared_capacity=9, factor=1e-320),
        ),
        ("priority", lambda: Operation(None, 1, "a", priority=cast(Any, None))),
        ("priority", lambda: Operation(None, 1, "a", priority=cast(Any, np.zeros(2)))),
    ],
)
def test_every_refusal_says_of_which_parameter_it_is(
    parameter: str, give: Callable[[], object]
) -> None:
    with pytest.raises(ArgumentError, match=f"^{parameter} must ") as caught:
        give()
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("priority", [7, 0, -7])
def test_a_priority_of_another_library_is_a_priority(priority: int) -> None:
    given: Any = np.int64(priority)
    taken = Operation(None, 1, "a", priority=given).priority
    assert (taken, type(taken)) == (priority, int)


def generate(given: object) -> Iterator[object]:
    yield given


def flags() -> list[tuple[str, Callable[[Any], object]]]:
    return [
        ("batchable", lambda value: Operation(None, 1, "a", batchable=value)),
        ("retry_abandoned", lambda value: Watcher(ignore, retry_abandoned=value)),
        ("error_on_full_buffer", lambda value: Batcher(error_on_full_buffer=value)),
        ("emit_batch", lambda value: Batcher(emit_batch=value)),
        ("emit_flush", lambda value: Batcher(emit_flush=value)),
        ("emit_request", lambda value: Batcher(emit_request=value)),
        ("drain", lambda value: Batcher().stop(drain=value)),
        (
            "auto_register",
            lambda value: RegistrationGate(MemoryEntityStore(), auto_register=value),
        ),
    ]


@pytest.mark.parametrize(("parameter", "give"), flags())
@pytest.mark.parametrize("value", ["false", "no", 0, 1, None])
def test_a_text_is_not_taken_for_true(
    parameter: str, give: Callable[[Any], object], value: object
) -> None:
    with pytest.raises(ValueError, match=f"^{parameter} must be True or False, not {value!r}"):
        give(value)


def test_an_error_has_its_facts_and_can_be_sent_whatever_was_given() -> None:
    with pytest.raises(ArgumentError) as caught:
        seconds("timeout", -2)
    error = caught.value
    assert (error.parameter, error.value, error.requirement) == (
        "timeout",
        -2,
        "be more than zero seconds",
    )
    lock = threading.Lock()
    sent = pickle.loads(pickle.dumps(ArgumentError("store", lock, "be a store")))
    assert str(sent) == f"store must be a store, not {lock!r}"
    assert sent.value == repr(lock)


def test_an_error_is_shown_under_the_name_that_the_caller_gave() -> None:
    expected = pytest.raises(ArgumentError, match=r"^--redis must be a URL$")
    with expected as caught, named({"url_or_client": "--redis"}):
        raise ArgumentError("url_or_client", UNSHOWN, "be a URL")
    assert caught.value.parameter == "--redis"
    expected = pytest.raises(ArgumentError, match=r"^prefix must")
    with expected, named({"url_or_client": "--redis"}):
        raise ArgumentError("prefix", "{", "be without braces")


def test_no_layer_reads_the_words_of_another() -> None:
    parsed = re.compile(r"str\((error|exc|e)\)\.replace\(")
    found = [
        path
        for package in PACKAGES
        for path in package.rglob("*.py")
        if parsed.search(path.read_text())
    ]
    assert not found


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1_234_567.5, "costs 1234567.5, more than the limiter's max_capacity of 1234567;"),
        (2**40, "costs 1099511627776,"),
        (timedelta(1).total_seconds() * 1e3, "costs 86400000,"),
    ],
)
def test_a_message_has_all_digits_of_a_number(value: float, said: str) -> None:
    assert said in str(ExceedsCapacityError(value, 1_234_567))


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:secret@db:6379/0",
        "redis://:secret@db:6379/0?password=a secret",
        b"redis://:secret@db",
        ["rediss://:secret@db"],
    ],
)
def test_a_url_in_the_wrong_place_is_shown_without_its_password(url: Any) -> None:
    for make in (
        lambda: Batcher(rate_limiter=url),
        lambda: RegistrationGate(url),
        lambda: SharedResource(shared_capacity=1, lease_manager=url),
        lambda: ProvisionedResource(url),
    ):
        with pytest.raises(ArgumentError) as refused:
            make()
        for said in (str(refused.value), repr(refused.value), str(refused.value.of("--limit"))):
            assert "secret" not in said
            assert "://***@db" in said
