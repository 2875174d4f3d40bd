"""Names of a package whose modules are imported when a name is asked for.

A package whose `__init__` imports all that it exports makes everything below it as slow to import
as all of it, and `dispatcher --help` needs nothing of the engine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazily(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for `package`; `homes` has the names of each module.

    The public modules of the package among them are attributes, too, as if they were imported.

    >>> __getattr__, __dir__ = lazily("limiters", {"limiters.errors": ["LimiterError"]})
    >>> __getattr__("LimiterError")
    <class 'limiters.errors.LimiterError'>
    >>> __getattr__("Limiter")
    Traceback (most recent call last):
    AttributeError: module 'limiters' has no attribute 'Limiter'
    """
    home_of = {name: module for module, names in homes.items() for name in names}
    below = [home.removeprefix(f"{package}.") for home in homes if home.startswith(f"{package}.")]
    modules = {path.partition(".")[0] for path in below if not path.startswith("_")}

    def find(name: str) -> object:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, found)  # the next time it is there
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of, *modules})

    return find, names
