"""python -m tests.public_names [--write]: every public name of the library, with its signature.

`tests/public_names.txt` holds one name a line. A change of that file is a change of what users can
rely on: the diff shows it to the reviewer. Without `--write` the program prints what differs.

Covered are the names in `__all__` of `dispatcher`, `limiters` and their public packages, and those
names of single modules that the pages of `docs/reference` show.
"""

from __future__ import annotations

import argparse
import difflib
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ForwardRef

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".txt")
TOPS = ("dispatcher", "limiters")
REFERENCE = re.compile(r"auto(?:class|function|data|exception):: ([\w.]+)\.(\w+)")
MODULE = re.compile(r"automodule:: ([\w.]+)")
SYNTAX = {f"__{name}__" for name in ("aenter", "await", "bool", "call", "enter", "iter", "len")}
"""Special methods that users call by syntax: their signature is public like that of any method."""


@cache
def packages() -> dict[str, frozenset[str] | None]:
    """The modules that users import from; None for all of `__all__`, else the names.

    >>> packages()["dispatcher.timeline"], sorted(packages()["limiters.embedded"])
    (None, ['EmbeddedRedis', 'ServerNotFoundError', 'ServerStartError'])
    """
    found: dict[str, frozenset[str] | None] = {}
    for top in TOPS:
        for path in [ROOT / top, *(ROOT / top).iterdir()]:
            name = ".".join(path.relative_to(ROOT).parts)
            start = path / "__init__.py"
            public = start.exists() and not path.name.startswith("_")
            if public and "\n__all__ = " in start.read_text():
                found[name] = None
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    reference = "\n".join(page.read_text() for page in pages)
    for module in set(MODULE.findall(reference)) - set(found):
        if "\n__all__ = " in (ROOT / f"{module.replace('.', '/')}.py").read_text():
            found[module] = None
    single: dict[str, set[str]] = {}
    for module, name in REFERENCE.findall(reference):
        if module not in found:
            single.setdefault(module, set()).add(name)
    return found | {module: frozenset(names) for module, names in single.items()}


def names_of(package: str) -> frozenset[str]:
    """The public names of a module."""
    chosen = packages()[package]
    return frozenset(importlib.import_module(package).__all__) if chosen is None else chosen


def lines(package: str) -> list[str]:
    """The public names of one package, sorted, each with its signature."""
    module = importlib.import_module(package)
    found = []
    for name in names_of(package):
        thing = getattr(module, name)
        if (home := _home(package, name, thing)) != package:
            found.append(f"{package}.{name} = {home}.{name}")
        else:
            found += _described(f"{package}.{name}", thing)
    return sorted(found)


def noted(package: str) -> list[str]:
    """The lines of the file that belong to one package."""
    return [line for line in FILE.read_text().splitlines() if _package_of(line) == package]


def _package_of(line: str) -> str:
    return max((one for one in packages() if line.startswith(f"{one}.")), key=len)


def _home(package: str, name: str, thing: object) -> str:
    """The innermost package that exports it, of those around the module that defines it."""
    place = f"{getattr(thing, '__module__', None) or ''}."
    around = [one for one in packages() if place.startswith(f"{one}.") and packages()[one] is None]
    return next(
        (one for one in sorted(around, key=len, reverse=True) if name in names_of(one)), package
    )


def _described(path: str, thing: Any) -> Iterator[str]:
    if inspect.isclass(thing):
        yield f"{path}{_constructor(thing)}"
        yield from _members(path, thing)
    elif inspect.isroutine(thing):
        yield f"{path}{_signature(thing)}"
    elif isinstance(thing, str | int | float):
        yield f"{path} = {thing!r}"
    elif isinstance(thing, frozenset):
        yield f"{path} = {sorted(thing)}"
    else:
        yield f"{path} = {_without_addresses(str(thing))}"


def _constructor(kind: type) -> str:
    """Its parameters; of an error also what it can be caught as."""
    ours = [one for one in kind.__mro__ if _is_ours(one)]
    made = any({"__init__", "__new__"} & set(vars(one)) for one in ours)
    if issubclass(kind, enum.Enum) or getattr(kind, "_is_protocol", False):
        return ""
    if issubclass(kind, BaseException):
        bases = ", ".join(base.__name__ for base in kind.__bases__)
        return f"{_signature(kind) if made else '(*args)'} is {bases}"
    return _signature(kind) if made else "()"


def _members(path: str, kind: type) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield from (f"{path}.{one.name} = {one.value!r}" for one in kind)
    seen: set[str] = set()
    for part in (one for one in kind.__mro__ if _is_ours(one)):
        types = inspect.get_annotations(part)
        for name in [*vars(part), *types, *_slots(part)]:
            if name in seen or (name.startswith("_") and name not in SYNTAX):
                continue
            seen.add(name)
            member = inspect.getattr_static(kind, name, None)
            if isinstance(member, property):
                yield f"{path}.{name}: {_result(member.fget)}"
            elif inspect.isroutine(member) and not inspect.isdatadescriptor(member):
                yield f"{path}.{name}{_signature(getattr(kind, name), inspect.isfunction(member))}"
            elif not isinstance(member, enum.Enum):
                yield f"{path}.{name}: {_annotation(types.get(name, 'Any'))}"


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [slots] if isinstance(slots, str) else list(slots)


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in TOPS


class _Plain(str):
    """An annotation that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _annotation(annotation: Any) -> _Plain:
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return _Plain(" ".join(annotation.split()))
    return _Plain(inspect.formatannotation(annotation))


def _result(function: Any) -> str:
    found = inspect.signature(function).return_annotation
    return "Any" if found is inspect.Signature.empty else _annotation(found)


def _signature(thing: Any, of_instance: bool = False) -> str:
    found = inspect.signature(thing)
    parameters = [
        one
        if one.annotation is inspect.Parameter.empty
        else one.replace(annotation=_annotation(one.annotation))
        for one in list(found.parameters.values())[of_instance:]
    ]
    result: Any = inspect.Signature.empty
    if not inspect.isclass(thing) and found.return_annotation is not result:
        result = _annotation(found.return_annotation)
    text = str(found.replace(parameters=parameters, return_annotation=result))
    is_async = inspect.iscoroutinefunction(thing) or inspect.isasyncgenfunction(thing)
    return _without_addresses(text) + (" async" if is_async else "")


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def main() -> int:
    """The exit code: 1 if the file is not up to date and is not to be written."""
    parser = argparse.ArgumentParser(prog="python -m tests.public_names")
    parser.add_argument("--write", action="store_true", help=f"renew {FILE.relative_to(ROOT)}")
    write = parser.parse_args().write
    now = sorted(line for package in packages() for line in lines(package))
    before = FILE.read_text().splitlines() if FILE.exists() else []
    changes = list(difflib.unified_diff(before, now, "noted", "now", n=0, lineterm=""))
    sys.stdout.writelines(f"{line}\n" for line in changes)
    if write:
        FILE.write_text("".join(f"{line}\n" for line in now))
    return int(bool(changes) and not write)


if __name__ == "__main__":
    sys.exit(main())
