"""Functions that users pass: which of them are refused, and how they are called.

A function may return without having done its work: a generator function only makes a generator,
and a plain function may return a coroutine that is never awaited. The work of such a call must
not count as done. So a function that can be recognized is refused when it is passed
(`check_effective`, `check_plain`), and any other by its first result (`result_of`).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from types import FunctionType, MethodType, TracebackType
from typing import Any

from limiters._support.validation import UNSHOWN, ArgumentError
from limiters._support.validation import function as check_callable
from limiters.errors import NothingRunError

_TRACEBACK = BaseException.__dict__["__traceback__"]

_LAZY = tuple(kind for kind in vars(itertools).values() if isinstance(kind, type))
"""Iterators that do nothing until a program iterates over them."""

_UNRUN = (Generator, AsyncGenerator, Awaitable, map, filter, zip, *_LAZY)
_UNRUN += (FunctionType, MethodType, functools.partial)
"""Results that stand for work which has not been done when they are returned."""

_UNFINISHED = (*_UNRUN, Future)
"""Results that stand for unfinished work, including work that another thread or process does."""

_POOLS = "multiprocessing.pool"
"""The module of one more such class, AsyncResult. A program that has not imported it has no such
result, and importing it here would add some milliseconds to the start of each program."""

_COLLECTIONS = (list, tuple, set, frozenset, dict)
_FINISHED = frozenset({type(None), bool, int, float, str, bytes})
"""The types of most values in collections: they need no further look."""
_DEEPEST = 3
"""The number of nested collections in which unfinished work is found."""


def check_effective(parameter: str, function: Callable[..., Any]) -> None:
    """Refuse a `function` that does nothing when it is called. It may be an `async def`."""
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
    """Refuse a `function` that does nothing when it is called, or an `async def`, since nothing
    awaits its result."""
    check_effective(parameter, function)
    if is_async(function):
        raise ArgumentError(
            parameter,
            UNSHOWN,
            f"be a plain function, and {name_of(function)} is an async def: nothing would await it",
            "hand in a function that starts it on your event loop",
        )


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call of `function` returns something to be awaited."""
    return _is(inspect.iscoroutinefunction, function)


def name_of(function: Callable[..., Any]) -> str:
    """Return a name of `function` for messages. Never raises."""
    try:
        while isinstance(function, functools.partial):
            function = function.func
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    except Exception:  # its attributes are the user's code
        return type(function).__qualname__


def result_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a plain `function`, whose work is done when it returns. Raise NothingRunError if its
    result is yet to be run, or is the Future of an executor."""
    result = function(*arguments)
    if result is not None:
        _check_run(function, result, _unfinished())
    return result


def notify(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a plain `function` whose work may go on elsewhere after it has returned. Raise
    NothingRunError if its result is yet to be run."""
    result = function(*arguments)
    if result is not None:
        _check_run(function, result, _UNRUN)


async def awaited_result_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call an `async def` and await it. Raise NothingRunError if its result is yet to be run."""
    result = await function(*arguments)
    if result is not None:
        _check_run(function, result, _unfinished())
    return result


def keep_last_raise(error: BaseException) -> None:
    """Cut off what earlier raises of the same instance have left in its traceback.

    The function that has just caught `error` calls this. An instance that is raised again keeps the
    frames of every earlier raise, and with them all arguments of these calls. An earlier raise
    begins where the frame of the function that caught the error comes a second time.
    """
    # Not through the error's class, which may be the user's code.
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    if trace is None:
        return
    catcher = trace.tb_frame.f_code
    while (below := trace.tb_next) is not None:
        if below.tb_frame.f_code is catcher:
            trace.tb_next = None
            return
        trace = below


def _unfinished() -> tuple[type, ...]:
    pooled = getattr(sys.modules.get(_POOLS), "AsyncResult", None)
    return _UNFINISHED if pooled is None else (*_UNFINISHED, pooled)


def _check_run(function: Callable[..., Any], result: Any, refused: tuple[type, ...]) -> None:
    # Types are compared: asking an object itself for its class may run the user's code.
    found = list(_found(result, refused, _DEEPEST))
    if not found:
        return
    for one in found:
        if isinstance(one, (Coroutine, Generator)):
            with contextlib.suppress(Exception):
                one.close()  # else Python warns that it was never awaited
    what = type(found[0]).__name__
    raise NothingRunError(
        name_of(function), what if found[0] is result else f"{what} in a {type(result).__name__}"
    )


def _found(result: Any, refused: tuple[type, ...], deepest: int) -> Iterator[Any]:
    """Iterate over the parts of `result` of a `refused` class: itself, or the values of a
    collection."""
    kind = type(result)
    if kind in _FINISHED:
        return
    if issubclass(kind, refused):
        yield result
    elif kind in _COLLECTIONS and deepest:
        for one in result.values() if kind is dict else result:
            yield from _found(one, refused, deepest - 1)


def _is(test: Callable[[Any], bool], function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return test(function) or test(getattr(type(function), "__call__", None))  # noqa: B004
