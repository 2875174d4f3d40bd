"""Signatures that are derived: a function takes the options that a dataclass declares.

    class Courier:
        @takes(CourierOptions)
        def __init__(self, options: CourierOptions) -> None: ...

    Courier(concurrency=4)  # as type checkers, `help` and the reference know it

`lists` adds what the options are for to the docstring of the class or function that takes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar

from limiters._support.options import append, listed

Taken = ParamSpec("Taken")
Options = TypeVar("Options")
Owner = TypeVar("Owner")
Result = TypeVar("Result")
Taker = TypeVar("Taker")


def takes(
    options: Callable[Taken, Options],
) -> Callable[[Callable[[Owner, Options], Result]], Callable[Concatenate[Owner, Taken], Result]]:
    """A method of one argument, an `options`, as one of the arguments that make an `options`.

    `options` is a dataclass.
    """

    def taking(
        method: Callable[[Owner, Options], Result],
    ) -> Callable[Concatenate[Owner, Taken], Result]:
        kind: Any = options
        fill = _renamed(kind.__init__, method.__qualname__)

        @wraps(method)
        def derived(owner: Owner, /, *given: Taken.args, **named: Taken.kwargs) -> Result:
            made: Options = object.__new__(kind)
            fill(made, *given, **named)
            return method(owner, made)

        own = inspect.signature(method)
        owner, _ = own.parameters.values()
        taken = sorted(inspect.signature(options).parameters.values(), key=_place)
        signature = own.replace(parameters=[owner, *taken])
        derived.__signature__ = signature  # type: ignore[attr-defined]
        return derived

    return taking


def _place(parameter: inspect.Parameter) -> tuple[int, bool]:
    """Those that are required go first."""
    return parameter.kind, parameter.default is not inspect.Parameter.empty


def _renamed(function: FunctionType, qualified: str) -> FunctionType:
    """A copy of `function` that a TypeError about its arguments names like the method called."""
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        argdefs=function.__defaults__,
        closure=function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = qualified
    return copy


def lists(options: type) -> Callable[[Taker], Taker]:
    """A class or function that takes `options`, with a list of them at the end of its docstring."""

    def listing(owner: Taker) -> Taker:
        append(owner, listed(options))
        return owner

    return listing
