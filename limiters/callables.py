"""Functions that users hand in: which of them are refused, and how they are called.

A function may return without having done its work: a generator function only makes a generator,
and a plain function may return a coroutine that nobody awaits. What such a call was to do must
not count as done. So a function that can be recognized is refused when it is handed in
(`check_effective`, `check_plain`), and any other by its first result (`result_of`).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from limiters._support.validation import UNSHOWN, ArgumentError
from limiters._support.validation import function as check_callable
from limiters.errors import NothingRunError

_TRACEBACK = BaseException.__dict__["__traceback__"]

_UNRUN = (Generator, AsyncGenerator, Awaitable, map, filter)
"""Results that stand for work which has not been done when they are returned."""

_UNFINISHED = (*_UNRUN, Future)
"""The same, and what stands for work that was handed to somebody else."""


def check_effective(parameter: str, function: Callable[..., Any]) -> None:
    """Refuses a `function` that does nothing when it is called; it may be an `async def`."""
    check_callable(parameter, function)
    if _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function):
        raise ArgumentError(
            parameter,
            UNSHOWN,
            f"not be a generator function, and {name_of(function)} is one: a call runs nothing of "
            "it",
            "remove its yield, or call it from a function that iterates",
        )


def check_plain(parameter: str, function: Callable[..., Any]) -> None:
    """Refuses also an `async def`, where nothing awaits its result."""
    check_effective(parameter, function)
    if is_async(function):
        raise ArgumentError(
            parameter,
            UNSHOWN,
            f"be a plain function, and {name_of(function)} is an async def: nothing would await it",
            "hand in a function that starts it on your event loop",
        )


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` gives something to be awaited."""
    return _is(inspect.iscoroutinefunction, function)


def name_of(function: Callable[..., Any]) -> str:
    """What to call `function` in a message. Never raises."""
    try:
        while isinstance(function, functools.partial):
            function = function.func
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    except Exception:  # its attributes are the user's code
        return type(function).__qualname__


def result_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a plain `function`, whose work is done when it returns. Raises NothingRunError if its
    result is yet to be run, or is the Future of an executor."""
    result = function(*arguments)
    if result is not None:
        _check_run(function, result, _UNFINISHED)
    return result


def notify(function: Callable[..., Any], *arguments: Any) -> None:
    """`result_of`, where work may go on elsewhere once the plain `function` has returned."""
    result = function(*arguments)
    if result is not None:
        _check_run(function, result, _UNRUN)


async def awaited_result_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls an `async def` and awaits it. Raises NothingRunError if its result is yet to be run."""
    result = await function(*arguments)
    if result is not None:
        _check_run(function, result, _UNFINISHED)
    return result


def keep_last_raise(error: BaseException) -> None:
    """Cuts off what earlier raises of the same instance have left in its traceback.

    For the function that has just caught `error`. An instance that is raised again keeps the
    frames of every earlier raise, and with them all that these calls were given; where the
    frame of the function that caught it comes a second time, the earlier raise begins.
    """
    # Not by its class, which may be the user's code.
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    if trace is None:
        return
    catcher = trace.tb_frame.f_code
    while (below := trace.tb_next) is not None:
        if below.tb_frame.f_code is catcher:
            trace.tb_next = None
            return
        trace = below


def _check_run(function: Callable[..., Any], result: Any, refused: tuple[type, ...]) -> None:
    # By its type: to ask the object itself for its class may run the user's code.
    if not issubclass(type(result), refused):
        return
    if isinstance(result, (Coroutine, Generator)):
        with contextlib.suppress(Exception):
            result.close()  # else Python warns that it was never awaited
    raise NothingRunError(name_of(function), type(result).__name__)


def _is(test: Callable[[Any], bool], function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return test(function) or test(getattr(type(function), "__call__", None))  # noqa: B004
