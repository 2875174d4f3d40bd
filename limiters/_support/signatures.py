"""Signatures that are derived: a function takes the options that a dataclass declares.

    class Courier:
        @takes(CourierOptions)
        def __init__(self, options: CourierOptions) -> None: ...

    Courier(concurrency=4)  # as type checkers, `help` and the reference know it

`lists` adds what the options are for to the docstring of the class that takes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from limiters._support.options import listed

Taken = ParamSpec("Taken")
Options = TypeVar("Options")
Owner = TypeVar("Owner")
Result = TypeVar("Result")
Class = TypeVar("Class", bound=type)


def takes(
    options: Callable[Taken, Options],
) -> Callable[[Callable[[Owner, Options], Result]], Callable[Concatenate[Owner, Taken], Result]]:
    """A method of one argument, an `options`, as one of the arguments that makes an `options`.

    What is wrong with the arguments is said as if the method had them itself.
    """

    def taking(
        method: Callable[[Owner, Options], Result],
    ) -> Callable[Concatenate[Owner, Taken], Result]:
        @wraps(method)
        def derived(owner: Owner, /, *given: Taken.args, **named: Taken.kwargs) -> Result:
            return method(owner, options(*given, **named))

        made, own = inspect.signature(options), inspect.signature(method)
        owner, _ = own.parameters.values()
        signature = own.replace(parameters=[owner, *made.parameters.values()])
        derived.__signature__ = signature  # type: ignore[attr-defined]
        # By this a TypeError names what was called.
        options.__init__.__qualname__ = method.__qualname__
        return derived

    return taking


def lists(options: type) -> Callable[[Class], Class]:
    """A class that takes `options`, with a list of them at the end of its docstring."""

    def listing(owner: Class) -> Class:
        if owner.__doc__:  # there is none with python -OO
            owner.__doc__ = "\n".join([inspect.cleandoc(owner.__doc__), "", *listed(options)])
        return owner

    return listing
