"""Checks of options that only a command has."""

from __future__ import annotations

from limiters._support.validation import ArgumentError, whole


def port(name: str, value: object) -> int:
    """`value` as the number of a port; 0 is a free one."""
    number = whole(name, value)
    if not 0 <= number <= 65_535:
        raise ArgumentError(name, value, "be from 0 to 65535")
    return number
