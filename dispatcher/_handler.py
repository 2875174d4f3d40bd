"""Functions that users provide to handle batches: a callable, or where to import one from."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dispatcher.errors import HandlerError
from limiters._support.callables import awaited_result_of, check_effective, is_async, result_of
from limiters._support.validation import ArgumentError

Target = Callable[..., Any] | str
"""A callable, or "module:function"."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that takes a batch and, if it takes two arguments, a context."""

    function: Callable[..., Any]
    name: str
    takes_context: bool

    @property
    def is_async(self) -> bool:
        """Whether its result has to be awaited."""
        return is_async(self.function)

    def bound(self, context: object) -> Callable[[Any], Any]:
        """Return a function of the batch alone, which refuses results that are yet to be run."""
        rest = (context,) if self.takes_context else ()
        call = awaited_result_of if self.is_async else result_of
        return lambda batch: call(self.function, batch, *rest)


def check(target: object) -> None:
    """Raise a ValueError for a target that `load` could never load."""
    if isinstance(target, str):
        module, separator, path = target.partition(":")
        if not (separator and _dotted(module) and _dotted(path)):
            raise ArgumentError(
                "handler",
                target,
                "be a callable or 'module:function', such as 'shop.handlers:send'",
            )
    elif callable(target):
        check_effective("handler", target)
    else:
        raise ArgumentError("handler", target, "be a callable or 'module:function'")


def load(target: Target) -> Handler:
    """Return the handler that `target` is or names. HandlerError if that fails.

    >>> load("math:fsum").function([1, 2])
    3.0
    """
    check(target)
    function = _imported(target) if isinstance(target, str) else target
    try:
        check_effective("it", function)
    except ValueError as error:
        raise HandlerError(_name_of(function, target), str(error)) from None
    return Handler(function, _name_of(function, target), _takes_context(function, target))


def _dotted(path: str) -> bool:
    return all(part.isidentifier() for part in path.split("."))


def _imported(target: str) -> Callable[..., Any]:
    module_name, _, path = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script's sys.exit(0) would look like a success
        if _is_missing(module_name, error):
            raise HandlerError(
                target,
                f"module {module_name!r} cannot be imported: {error}. Python looks in "
                f"{sys.path[0] or os.getcwd()} first: start it in the directory above "
                f"{module_name.split('.')[0]!r}, or name that in PYTHONPATH",
            ) from None
        trace = "".join(traceback.format_exception(_below_the_import_system(error)))
        said = "it ends the program" if isinstance(error, SystemExit) else error
        raise HandlerError(
            target, f"module {module_name!r} cannot be imported: {said}", trace
        ) from error
    try:
        found = functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        raise HandlerError(
            target, f"module {module_name!r} ({module.__file__}) has no {path!r}"
        ) from None
    if not callable(found):
        raise HandlerError(
            target, f"{path!r} is of the class {type(found).__name__}, which cannot be called"
        )
    function: Callable[..., Any] = found
    return function


def _is_missing(module_name: str, error: BaseException) -> bool:
    """Whether the module does not exist, rather than one that it imports itself."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return False
    return f"{module_name}.".startswith(f"{error.name}.")


def _below_the_import_system(error: BaseException) -> BaseException:
    """Remove the frames of this module and of importlib from a traceback: they are of no use to the
    user."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        file = trace.tb_frame.f_code.co_filename
        if file != __file__ and "importlib" not in file:
            break
        trace = trace.tb_next
    return error.with_traceback(trace)


def _name_of(function: Callable[..., Any], target: Target) -> str:
    if isinstance(target, str):
        return target
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or '?'}:{name}"


def _takes_context(function: Callable[..., Any], target: Target) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    places = [
        one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    needed = [one for one in places if one.default is one.empty]
    several = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    named = [one for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if len(needed) > 2 or named or not (places or several):
        raise HandlerError(
            _name_of(function, target),
            "it must take a batch and, if it wants to, a context: "
            f"def handler(batch, context), not {inspect.signature(function)}",
        )
    # A second parameter with a default is a setting of the function, unless it is named `context`.
    return len(needed) == 2 or any(one.name == "context" for one in places[1:2]) or several
