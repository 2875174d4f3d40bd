"""Fuzz targets, one in each module, which has its name. `check` plays an input and fails if the law
of the target does not hold, or if it takes too long. `seeds` returns inputs to begin with, which
`make test` plays as well."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Protocol, cast


class Target(Protocol):
    """The interface of such a module."""

    def check(self, data: bytes) -> object:
        """Play one input, and fail if the law of the target does not hold."""

    def seeds(self) -> Iterable[bytes]:
        """Return valid inputs, with which fuzzing begins."""


NAMES = tuple(sorted(found.name for found in pkgutil.iter_modules(__path__)))


def target(name: str) -> Target:
    """Return the target of that name."""
    return cast("Target", importlib.import_module(f"{__name__}.{name}"))
