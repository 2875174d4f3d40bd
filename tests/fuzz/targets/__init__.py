"""One target a module, called like it. `check` plays an input and fails if what it is about does
not hold, or takes too long; `seeds` gives inputs to begin with, which also `make test` plays."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Protocol, cast


class Target(Protocol):
    """Such a module."""

    def check(self, data: bytes) -> object:
        """Plays one input."""

    def seeds(self) -> Iterable[bytes]:
        """Inputs that are whole."""


NAMES = tuple(sorted(found.name for found in pkgutil.iter_modules(__path__)))


def target(name: str) -> Target:
    """The target of that name."""
    return cast("Target", importlib.import_module(f"{__name__}.{name}"))
