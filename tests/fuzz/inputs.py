"""Turns the bytes of a fuzzer into values. If there are too few bytes, everything is zero or
empty."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_WHOLE, _FLOAT = struct.Struct("<q"), struct.Struct("<d")


class Input:
    """Reads values from bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def has_more(self) -> bool:
        """Whether there are bytes that have not been read."""
        return self._at < len(self._data)

    def take(self, length: int) -> bytes:
        """Return so many bytes, or as many as are left."""
        taken = self._data[self._at : self._at + length]
        self._at += length
        return taken

    def rest(self) -> bytes:
        """Return all bytes that are left."""
        return self.take(len(self._data))

    def byte(self) -> int:
        """Return a number from 0 to 255."""
        return self.take(1)[0] if self.has_more else 0

    def choice(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return values[self.byte() % len(values)]

    def number(self) -> float:
        """Return a whole number in most cases, so that a changed bit leaves it one; otherwise any
        float."""
        layout = _FLOAT if self.byte() % 4 == 3 else _WHOLE
        return float(layout.unpack(self.take(8).ljust(8, b"\0"))[0])

    def blob(self) -> bytes:
        """Return bytes that follow their length."""
        return self.take(int.from_bytes(self.take(2), "little"))

    def text(self) -> str:
        """Return text as a user or a file may contain it, with bytes that are no text."""
        return self.blob().decode("utf-8", "surrogateescape")


def of_number(value: float) -> bytes:
    """Return the bytes that `Input.number` reads as `value`."""
    if value == int(value):
        return b"\0" + _WHOLE.pack(int(value))
    return b"\3" + _FLOAT.pack(value)


def of_numbers(values: Sequence[float]) -> bytes:
    """Return the bytes of several numbers."""
    return b"".join(map(of_number, values))


def of_blob(value: bytes | str) -> bytes:
    """Return the bytes that `Input.blob`, or `Input.text`, reads as `value`."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return len(data).to_bytes(2, "little") + data


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a folder in memory if the system has one: a disk would spend time on files that are
    not needed."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
