"""Signatures that are derived: a function takes the options that a dataclass declares.

    class Courier:
        @takes(CourierOptions)
        def __init__(self, options: CourierOptions) -> None: ...

    Courier(concurrency=4)  # type checkers, `help` and the reference show this

`lists` adds what the options are for to the docstring of the class or function that takes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar

from limiters._support.options import annotate, append, listed

Taken = ParamSpec("Taken")
Options = TypeVar("Options")
Owner = TypeVar("Owner")
Result = TypeVar("Result")
Taker = TypeVar("Taker")


def takes(
    options: Callable[Taken, Options],
) -> Callable[[Callable[[Owner, Options], Result]], Callable[Concatenate[Owner, Taken], Result]]:
    """Return a method that takes the arguments of an `options` from one that takes an `options`.

    `options` is a dataclass.
    """

    def taking(
        method: Callable[[Owner, Options], Result],
    ) -> Callable[Concatenate[Owner, Taken], Result]:
        kind: Any = options
        fill = _renamed(kind.__init__, method.__qualname__)

        own = inspect.signature(method)
        first, _ = own.parameters.values()

        @wraps(method)
        def derived(*given: Any, **named: Any) -> Result:
            owner, rest = _first(method.__qualname__, first.name, given, named)
            made: Options = object.__new__(kind)
            fill(made, *rest, **named)
            return method(owner, made)

        taken = sorted(inspect.signature(options).parameters.values(), key=_place)
        signature = own.replace(parameters=[first, *taken])
        annotate(derived, signature, kind)
        return derived

    return taking


def _first(
    called: str, name: str, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, tuple[Any, ...]]:
    """Return the argument before the options, taken out of `named` if it is there, and the rest of
    the positional arguments."""
    if given and name in named:
        raise TypeError(f"{called}() got multiple values for argument {name!r}")
    if given:
        return given[0], given[1:]
    if name in named:
        return named.pop(name), ()
    raise TypeError(f"{called}() missing 1 required positional argument: {name!r}")


def _place(parameter: inspect.Parameter) -> tuple[int, bool]:
    """Return the sort key of a parameter: those that are required come first."""
    return parameter.kind, parameter.default is not inspect.Parameter.empty


def _renamed(function: FunctionType, qualified: str) -> FunctionType:
    """Return a copy of `function` whose TypeErrors about arguments name the method that was
    called."""
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
    """Add a list of the options to the docstring of a class or function that takes `options`."""

    def listing(owner: Taker) -> Taker:
        append(owner, listed(options))
        return owner

    return listing
