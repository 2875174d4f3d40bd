"""Values on the tools' command lines, and the errors for wrong ones."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

SEEDS = range(2**32)
"""The values that PYTHONHASHSEED accepts."""


def whole(least: int = 1, make: str = "") -> Callable[[str], int]:
    """For `type` in argparse: a whole number. `make` is the variable that sets it in `make`."""

    def parsed(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(
                f"must be a whole number, at least {least}, not {text!r}{_by_make(make)}"
            )
        return number

    return parsed


def positive(make: str = "") -> Callable[[str], float]:
    """For `type` in argparse: a number above zero."""

    def parsed(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if not 0 < number < math.inf:
            raise argparse.ArgumentTypeError(
                f"must be a number above 0, not {text!r}{_by_make(make)}"
            )
        return number

    return parsed


def _by_make(variable: str) -> str:
    return f" (by make: {variable})" if variable else ""


def seed(text: str) -> int:
    """Return a function for `type` in argparse."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number not in SEEDS:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 0 to {SEEDS[-1]}, not {text!r}"
        )
    return number
