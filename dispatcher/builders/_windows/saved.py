"""Save and restore a builder's state as JSON, so that loading it cannot run code.

JSON's own values are written unchanged, except objects: {"tuple": [...]} and so on represent the
types that JSON lacks.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

from dispatcher.builders._times import plain
from limiters._support.validation import UNSHOWN, ArgumentError

FORMAT = "dispatcher.builders/2"
FORMATS = ("dispatcher.builders/1", FORMAT)
"""The formats that can be read. The first had each message, and each remembered one, as a list of
two."""
_JSON = json.JSONEncoder(separators=(",", ":"))
"""One for all: json.dumps would make one for each state."""
_LONG = 2**64
_PLAIN = frozenset((bool, str, type(None)))
_NESTED = frozenset((list, dict))


def pack(state: object) -> bytes:
    """Return `state` as bytes. TypeError names what cannot be saved."""
    return _JSON.encode({"format": FORMAT, "state": encode(state)}).encode("ascii")


def unpack(data: bytes) -> tuple[str, Any]:
    """Return the format, and the state. ArgumentError if `data` is no saved state."""
    try:
        read = json.loads(data)
        if not isinstance(read, dict) or read.get("format") not in FORMATS:
            raise ValueError(f"it is not of the format {FORMAT!r}")
        return read["format"], decode(read["state"])
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        reason = f"it cannot be read: {error}"
        raise ArgumentError("data", UNSHOWN, "be what dump() gave", reason) from error


def in_present_format(form: str, state: dict[str, Any]) -> dict[str, Any]:
    """Convert a state that was saved in the format `form`, one of FORMATS."""
    if form == FORMAT:
        return state
    opened = [
        [*rest, [arrival for arrival, _ in entries], [message for _, message in entries]]
        for *rest, entries in state["open"]
    ]
    closed = [
        [until, [key for key, _ in identities], [time for _, time in identities]]
        for until, identities in state["closed"]
    ]
    return {**state, "open": opened, "closed": closed}


def encode(value: Any) -> Any:
    """Encode `value` for JSON. Values of subclasses are refused, since too much would be lost;
    except datetimes such as pandas' Timestamps, which are restored as datetimes."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:  # long ones are refused by JSON readers, this one included
        return value if -_LONG < value < _LONG else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is list:
        return value if _stands_for_itself(value) else list(map(encode, value))
    if kind is dict:
        return {"dict": [[encode(key), encode(one)] for key, one in value.items()]}
    if kind is tuple:
        return {"tuple": list(map(encode, value))}
    if kind in (set, frozenset):  # sorted, so that the same state gives the same bytes
        return {kind.__name__: sorted(map(encode, value), key=json.dumps)}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is datetime:
        return {"datetime": [value.isoformat(), value.fold]}
    if isinstance(value, datetime) and value == value:  # NaT has no time
        with contextlib.suppress(ValueError):
            return encode(plain(value))
    if kind is date:
        return {"date": value.isoformat()}
    if kind is timedelta:
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    raise TypeError(
        f"{value!r} is a {kind.__qualname__}, which cannot be saved as it is; hand dump() a "
        "function `encode` that turns a message into what can, and load() a `decode`"
    )


def _stands_for_itself(values: list[Any]) -> bool:
    """Whether all values are written unchanged; checked at the speed of C."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return bool(min(values) > -_LONG and max(values) < _LONG)
    if kinds == {float}:
        return all(map(math.isfinite, values))
    return kinds <= _PLAIN


def decode(value: Any) -> Any:
    """Decode a value from JSON."""
    if isinstance(value, list):
        if _NESTED.isdisjoint(map(type, value)):
            return value
        return list(map(decode, value))
    if not isinstance(value, dict):
        return value
    ((tag, told),) = value.items()
    return _DECODERS[tag](told)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda told: int(told, 16),
    "float": float,
    "dict": lambda told: {decode(key): decode(one) for key, one in told},
    "tuple": lambda told: tuple(map(decode, told)),
    "set": lambda told: set(map(decode, told)),
    "frozenset": lambda told: frozenset(map(decode, told)),
    "bytes": bytes.fromhex,
    "datetime": lambda told: datetime.fromisoformat(told[0]).replace(fold=told[1]),
    "date": date.fromisoformat,
    "timedelta": lambda told: timedelta(*told),
}
