"""Costs and limits of several dimensions, as the options of a format say them: in one text."""

from __future__ import annotations

import re

from limiters._support.validation import ArgumentError
from limiters.limits import InFlight, Limits, Rate

_IN_FLIGHT = re.compile(r"(?P<calls>\d+)\s+in\s+flight")
_RATE = re.compile(r"(?P<capacity>[^/\s]+)\s*/\s*(?P<per>[^/\s]+?)\s*s?")


def cost_in(option: str, text: str) -> float | str | dict[str, float | str]:
    """What a row costs: a number, an expression of columns, or one of both for each dimension.

    >>> cost_in("cost", "2.5"), cost_in("cost", "size / 4")
    (2.5, 'size / 4')
    >>> cost_in("cost", "requests=1, tokens=size/4")
    {'requests': 1.0, 'tokens': 'size/4'}
    """
    return (
        {name: _price(one) for name, one in _parts(option, text)} if "=" in text else _price(text)
    )


def amounts_in(option: str, text: str) -> float | dict[str, float]:
    """A number, or one for each dimension.

    >>> amounts_in("batchCost", "1"), amounts_in("batchCost", "requests=1, calls=1")
    (1.0, {'requests': 1.0, 'calls': 1.0})
    """
    if "=" not in text:
        return _number(option, text)
    return {name: _number(option, one) for name, one in _parts(option, text)}


def limits_in(option: str, text: str) -> float | Limits:
    """A number, or a rate or a number of calls in flight for each dimension; of a rate that is
    named several times each is a window.

    >>> limits_in("sharedCapacity", "20000")
    20000.0
    >>> limits_in("sharedCapacity", "requests=600/60s, requests=10/1s, calls=20 in flight")
    Limits(requests=Rate(600, per=60, also=(Rate(10, per=1),)), calls=InFlight(20))
    """
    if "=" not in text:
        return _number(option, text)
    rates: dict[str, list[Rate]] = {}
    slots: dict[str, InFlight] = {}
    order: dict[str, None] = {}
    for name, one in _several(option, text):
        order[name] = None
        if found := _IN_FLIGHT.fullmatch(one):
            slots[name] = InFlight(int(found["calls"]))
        elif found := _RATE.fullmatch(one):
            per = _number(option, found["per"])
            rates.setdefault(name, []).append(Rate(_number(option, found["capacity"]), per))
        else:
            requirement = "be like 'requests=600/60s, calls=20 in flight'"
            raise ArgumentError(option, text, requirement, f"{one!r} is neither")
    if both := rates.keys() & slots.keys():
        raise ArgumentError(
            option, text, "have a rate or calls in flight", f"{min(both)!r} has both"
        )
    of: dict[str, Rate | InFlight] = {}
    for name in order:
        if name in slots:
            of[name] = slots[name]
            continue
        longest, *others = sorted(rates[name], key=lambda rate: -float(str(rate.per)))
        of[name] = Rate(longest.capacity, longest.per, also=others)
    return Limits(**of)


def _parts(option: str, text: str) -> list[tuple[str, str]]:
    """The names in `text`, each of which is there once, and what they stand for."""
    parts = _several(option, text)
    names = [name for name, _ in parts]
    if len(set(names)) < len(names):
        raise ArgumentError(option, text, "name each dimension once")
    return parts


def _several(option: str, text: str) -> list[tuple[str, str]]:
    parts = []
    for part in text.split(","):
        name, separator, value = (one.strip() for one in part.partition("="))
        if not (name and separator and value):
            raise ArgumentError(option, text, "be like 'requests=1, tokens=size/4'")
        parts.append((name, value))
    return parts


def _price(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(option, text, "be a number") from None
