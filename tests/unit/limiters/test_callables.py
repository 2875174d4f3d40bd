"""Functions that users hand in: nothing counts as done of which nothing was run."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from multiprocessing.pool import AsyncResult
from typing import Any, ClassVar
from unittest.mock import AsyncMock, MagicMock

import pytest

from dispatcher import Batcher, HandlerError, Operation, Watcher
from dispatcher._handler import load
from dispatcher.errors import BufferFullError
from dispatcher.senders._placing import give_up
from limiters import ProvisionedResource
from limiters._support.callables import (
    awaited_result_of,
    check_effective,
    check_plain,
    is_async,
    keep_last_raise,
    name_of,
    result_of,
)
from limiters.errors import NothingRunError
from tests.crank import ignore
from tests.seen import PATIENCE
from tests.waiting import until


def generates(*arguments: Any) -> Iterator[Any]:
    yield from arguments


async def generates_async(*arguments: Any) -> AsyncIterator[Any]:
    for one in arguments:
        yield one


async def awaits(*arguments: Any) -> None: ...


class Generating:
    def __call__(self, *arguments: Any) -> Iterator[Any]:
        yield from arguments

    def method(self, *arguments: Any) -> Iterator[Any]:
        yield from arguments


class Pending:
    def __await__(self) -> Iterator[Any]:
        yield


GENERATORS: list[Callable[..., Any]] = [
    generates,
    generates_async,
    functools.partial(functools.partial(generates, 1), 2),
    Generating(),
    Generating().method,
]
LAZY: list[Callable[..., Any]] = [
    lambda *arguments: generates(*arguments),
    lambda *arguments: generates_async(*arguments),
    lambda *arguments: awaits(*arguments),
    lambda *arguments: map(print, arguments),
    lambda *arguments: filter(None, arguments),
    lambda *arguments: Pending(),
    lambda *arguments: Future[None](),
]
HIDDEN: list[Callable[..., Any]] = [
    lambda *arguments: [awaits(one) for one in (1, 2)],
    lambda *arguments: {"one": (generates(),)},
    lambda *arguments: [Future[None]()],
    lambda *arguments: ({Pending()}, set()),  # like asyncio.wait
    lambda *arguments: itertools.starmap(print, [arguments]),
    lambda *arguments: itertools.chain(map(print, arguments)),
    lambda *arguments: zip(map(print, arguments), arguments, strict=True),
    lambda *arguments: functools.partial(print, *arguments),
    lambda *arguments: lambda: ignore(*arguments),
    lambda *arguments: AsyncResult(_NO_POOL, None, None),
]


class _NoPool:
    """The part of a pool that an AsyncResult looks at."""

    _cache: ClassVar[dict[int, Any]] = {}
    _change_notifier = None


_NO_POOL: Any = _NoPool()


@pytest.mark.parametrize("function", GENERATORS)
def test_a_generator_function_is_refused_when_it_is_handed_in(function: Any) -> None:
    for hand_in in (
        Watcher,
        lambda it: Watcher(ignore, on_failure=it),
        lambda it: ProvisionedResource(1).add_listener(it),
        lambda it: Batcher().add_listener(it),
    ):
        with pytest.raises(ValueError, match=r"must not be a generator function, and .*enerat"):
            hand_in(function)
    with pytest.raises(ValueError, match="handler must not be a generator function"):
        load(function)


def test_so_is_one_that_is_named() -> None:
    for name in ("generates", "generates_async"):
        with pytest.raises(HandlerError, match="it must not be a generator function"):
            load(f"{__name__}:{name}")


def test_a_listener_that_nothing_would_await_is_refused() -> None:
    for function in (awaits, functools.partial(awaits, 1), AsyncMock()):
        check_effective("fn", function)
        with pytest.raises(ValueError, match="fn must be a plain function"):
            check_plain("fn", function)
        with pytest.raises(ValueError, match="nothing would await it"):
            Batcher().add_listener(function)


@pytest.mark.parametrize("function", [print, ignore, MagicMock(), AsyncMock(), dict, awaits])
def test_all_others_may_be_handed_in(function: Any) -> None:
    check_effective("fn", function)
    Watcher(function, on_failure=function)
    assert is_async(function) == (function is awaits or isinstance(function, AsyncMock))


@pytest.mark.parametrize("function", LAZY)
@pytest.mark.parametrize("on_failure", [False, True])
def test_a_result_that_is_yet_to_be_run_fails_its_batch(
    function: Any, on_failure: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(batch: list[Operation]) -> None:
        raise OSError("refused")

    watcher = Watcher(fail, on_failure=function) if on_failure else Watcher(function)
    with Batcher() as batcher:
        batcher.enqueue(Operation(watcher, 1, None))
        assert watcher.wait(PATIENCE)
    assert batcher.totals.done == 0
    assert batcher.totals.failed == 1
    assert "whose work is yet to be done" in caplog.text


def test_so_does_what_a_coroutine_forgets_to_await() -> None:
    async def forgets(batch: list[Operation]) -> Any:
        return awaits(batch)

    watcher = Watcher(forgets)
    with Batcher() as batcher:
        batcher.enqueue(Operation(watcher, 1, None))
        assert watcher.wait(PATIENCE)
    assert batcher.totals.failed == 1


@pytest.mark.parametrize("function", LAZY + HIDDEN)
def test_a_handler_is_guarded_wherever_it_is_called(function: Any) -> None:
    with pytest.raises(NothingRunError):
        load(function).bound(None)([1])

    async def handle(batch: list[int]) -> Any:
        return function(*batch)

    bound = load(handle).bound(None)
    with pytest.raises(NothingRunError, match=r"handle returned an object of class"):
        asyncio.run(bound([1]))


def test_work_in_a_collection_is_named() -> None:
    with pytest.raises(NothingRunError, match="an object of class coroutine in a list, whose work"):
        result_of(lambda: [1, (awaits(), awaits())])


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    "result", [None, {}, {"id": OSError()}, [1], iter([1]), 7, ITSELF, [[None], {"id": [print]}]]
)
def test_what_a_handler_answers_is_passed_on(result: object) -> None:
    assert load(lambda batch: result).bound(None)([1]) is result
    assert result_of(lambda: result) is result


def test_a_result_that_hides_its_class_is_no_failure() -> None:
    def unbound(self: object) -> Any:
        raise RuntimeError("not bound")

    proxy = type("Proxy", (), {"__class__": property(unbound)})()
    assert result_of(lambda: proxy) is proxy


@pytest.mark.parametrize("function", LAZY)
def test_a_failure_callback_of_a_built_batch_is_guarded(
    function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    give_up(Operation(Watcher(ignore, on_failure=function), 1, None), BufferFullError(1))
    assert "whose work is yet to be done" in caplog.text


def test_a_failure_callback_of_a_built_batch_may_be_a_coroutine() -> None:
    handed: list[Any] = []

    async def on_failure(failed: list[Operation], error: BaseException) -> None:
        await asyncio.sleep(0)
        handed.append(error)

    error = BufferFullError(1)
    give_up(Operation(Watcher(ignore, on_failure=on_failure), 1, None), error)
    assert handed == [error]


def test_nothing_that_was_refused_warns_later() -> None:
    unraised: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, unraised.append
    try:
        for function in LAZY + HIDDEN:
            with pytest.raises(NothingRunError):
                result_of(function)
        gc.collect()
    finally:
        sys.unraisablehook = before
    assert not unraised


def test_a_name_is_found_for_anything() -> None:
    class Strange:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

        def __call__(self) -> None: ...

    assert name_of(functools.partial(ignore)) == "ignore"
    assert name_of(Strange()).endswith("Strange")


def test_of_an_instance_that_is_raised_again_only_the_last_raise_is_kept() -> None:
    class Payload:
        pass

    def fail(payload: Payload) -> None:
        raise always

    always, payloads = OSError("always"), weakref.WeakSet[Payload]()
    for _ in range(20):
        payload = Payload()
        payloads.add(payload)
        try:
            fail(payload)
        except OSError as error:
            keep_last_raise(error)
        del payload
    gc.collect()
    assert len(payloads) == 1


def test_a_traceback_of_one_raise_stays_whole() -> None:
    def recurse(depth: int) -> None:
        if depth:
            recurse(depth - 1)
        raise OSError

    try:
        recurse(5)
    except OSError as error:
        keep_last_raise(error)
        trace, depth = error.__traceback__, 0
        while trace is not None:
            trace, depth = trace.tb_next, depth + 1
        assert depth == 7
    keep_last_raise(OSError())


def test_an_awaited_result_is_passed_on() -> None:
    async def answer(number: int) -> int:
        return number

    assert asyncio.run(awaited_result_of(answer, 7)) == 7


def test_a_listener_that_returns_a_coroutine_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limiter = ProvisionedResource(1)
    limiter.add_listener(lambda event: awaits(event))
    with limiter:
        pass
    until(lambda: "whose work is yet to be done" in caplog.text)


def test_a_listener_may_hand_its_work_to_an_executor(caplog: pytest.LogCaptureFixture) -> None:
    handed: list[object] = []

    def listen(event: object) -> Future[None]:
        handed.append(event)
        return Future()

    batcher = Batcher()
    batcher.add_listener(listen, "shutdown")
    with batcher:
        pass
    until(lambda: handed)
    assert "raised" not in caplog.text
