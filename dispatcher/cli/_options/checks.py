"""Checks of options that only a command has."""

from __future__ import annotations

from limiters._support.validation import ArgumentError, count, whole

MOST_PROCESSES = 1_000
"""More on one machine are a typing error."""


def processes(name: str, value: object) -> int:
    """Return `value` as a number of processes."""
    number = count(name, value)
    if number > MOST_PROCESSES:
        raise ArgumentError(name, value, f"be at most {MOST_PROCESSES:,}")
    return number


def port(name: str, value: object) -> int:
    """Return `value` as the number of a port; 0 is a free one."""
    number = whole(name, value)
    if not 0 <= number <= 65_535:
        raise ArgumentError(name, value, "be from 0 to 65535")
    return number
