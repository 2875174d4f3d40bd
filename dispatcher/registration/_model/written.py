"""Encode entities, data and messages as JSON text, so that reading them cannot run code.

Objects that JSON lacks are written as {"bytes": ...} and so on; a dict as {"dict": [...]}.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from dispatcher.registration._model.release import Registration
from limiters._support.validation import UNSHOWN, ArgumentError

DEEPEST = 100
"""Maximum nesting of lists, tuples and dicts. Python reads and writes them by recursion: the
possible depth depends on the caller, and what one program writes, all must be able to read."""


class UnreadableError(Exception):
    """A stored text is not as it was written."""


_UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
"""Errors that a text can cause, whatever it contains and however deep it is. Others come from
signal handlers."""

_as_text = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def record_of(parent: str | None, data: object) -> str:
    """Return the record of an entity. Equal registrations give equal texts."""
    return _as_text([parent, encode("data", data)])


def parent_of(record: str) -> str | None:
    """Return the parent in a record."""
    parent: str | None = json.loads(record)[0]
    return parent


def registration_of(entity: str, record: str) -> Registration:
    """Return the registration in a record. UnreadableError if it was damaged."""
    try:
        parent, data = json.loads(record)
        return Registration(entity, parent, decode(data))
    except _UNREADABLE as error:
        raise UnreadableError from error


def text_of(message: object) -> str:
    """Encode a message, to be kept outside of this process."""
    return _as_text(encode("message", message))


def message_of(text: str | bytes) -> Any:
    """Decode a message. UnreadableError if the text was damaged."""
    try:
        return decode(json.loads(text))
    except _UNREADABLE as error:
        raise UnreadableError from error


def sealed_text_of(entity: str, message: object) -> str:
    """Encode a message of `entity` with a checksum, to be kept where it could be mixed up.

    >>> sealed_text_of("meter", 21.5)
    '321d777e21.5'
    """
    text = text_of(message)
    return _checksum(entity, text.encode()) + text


def sealed_message_of(entity: str, sealed: str | bytes) -> Any:
    """Decode a sealed message. UnreadableError if the text was damaged, or belongs to another
    entity."""
    stored = sealed if isinstance(sealed, bytes) else sealed.encode(errors="surrogateescape")
    text = stored[_CHECKSUM_LENGTH:]
    if stored[:_CHECKSUM_LENGTH] != _checksum(entity, text).encode():
        raise UnreadableError
    return message_of(text)


_CHECKSUM_LENGTH = 8


def _checksum(entity: str, text: bytes) -> str:
    return f"{zlib.crc32(text, zlib.crc32(entity.encode())):08x}"


def encode(name: str, value: Any, room: int = DEEPEST) -> Any:
    """Encode `value` for JSON, with at most `room` levels. ArgumentError if decoding would not
    return an equal value."""
    kind = type(value)
    if value is None or kind in (bool, str, int):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if room == 0 and kind in (list, tuple, dict):
        requirement = f"be at most {DEEPEST} lists, tuples and dicts deep"
        raise ArgumentError(name, UNSHOWN, requirement)
    left = room - 1
    if kind is list:
        return [encode(name, one, left) for one in value]
    if kind is dict:
        pairs = [[encode(name, key, left), encode(name, one, left)] for key, one in value.items()]
        return {"dict": sorted(pairs, key=json.dumps)} if name == "data" else {"dict": pairs}
    if kind is tuple:
        return {"tuple": [encode(name, one, left) for one in value]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is datetime:
        return {"datetime": [value.isoformat(), value.fold]}
    raise ArgumentError(
        name,
        value,
        "be made of None, bool, int, float, str, bytes, datetime, list, tuple and dict to be kept "
        "outside of this process",
        f"that is a {kind.__qualname__}",
    )


def decode(value: Any) -> Any:
    """Decode a value from JSON."""
    if isinstance(value, list):
        return list(map(decode, value))
    if not isinstance(value, dict):
        return value
    ((tag, told),) = value.items()
    return _DECODERS[tag](told)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "dict": lambda told: {decode(key): decode(one) for key, one in told},
    "tuple": lambda told: tuple(map(decode, told)),
    "bytes": bytes.fromhex,
    "datetime": lambda told: datetime.fromisoformat(told[0]).replace(fold=told[1]),
}
