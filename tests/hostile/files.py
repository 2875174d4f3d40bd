"""Kinds of damage to a file, and which of its bytes they leave alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

PAGE = 4096
"""The number of bytes that disks, file systems and SQLite write in one piece."""


def _flip(data: bytearray, at: int, chance: random.Random) -> None:
    data[at] ^= 1 << chance.randrange(8)


def one_bit(data: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(data)
    _flip(damaged, chance.randrange(len(data)), chance)
    return bytes(damaged)


def bits_everywhere(data: bytes, chance: random.Random) -> bytes:
    """One in each hundred pages' worth of bytes, at least three."""
    damaged = bytearray(data)
    for _ in range(max(3, len(data) // (100 * PAGE))):
        _flip(damaged, chance.randrange(len(data)), chance)
    return bytes(damaged)


def head_of_the_file(data: bytes, chance: random.Random) -> bytes:
    """A bit of the first hundred bytes, which say what the file is."""
    damaged = bytearray(data)
    _flip(damaged, chance.randrange(min(100, len(data))), chance)
    return bytes(damaged)


def head_of_a_page(data: bytes, chance: random.Random) -> bytes:
    """A bit of the bytes that say what is in a page, and where."""
    damaged = bytearray(data)
    page = chance.randrange((len(data) + PAGE - 1) // PAGE)
    at = page * PAGE + (100 if page == 0 else 0) + chance.randrange(12)
    _flip(damaged, min(at, len(data) - 1), chance)
    return bytes(damaged)


def a_letter(data: bytes, chance: random.Random) -> bytes:
    """A bit of the first page's text."""
    letters = [at for at in range(min(PAGE, len(data))) if chr(data[at]).isalpha()]
    damaged = bytearray(data)
    _flip(damaged, chance.choice(letters or [0]), chance)
    return bytes(damaged)


def a_page_overwritten(data: bytes, chance: random.Random) -> bytes:
    page = chance.randrange((len(data) + PAGE - 1) // PAGE) * PAGE
    filler = chance.choice([b"\0", b"\xa5", b"\xff"])
    size = min(PAGE, len(data) - page)
    return data[:page] + filler * size + data[page + size :]


def cut_short(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def cut_by_pages(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange((len(data) + PAGE - 1) // PAGE) * PAGE]


def zeros_at_the_end(data: bytes, chance: random.Random) -> bytes:
    """Leave a file as a file system does that wrote its length before its content."""
    return data + b"\0" * chance.choice([1, 8, 100, PAGE])


def noise_at_the_end(data: bytes, chance: random.Random) -> bytes:
    return data + chance.randbytes(chance.choice([1, 8, 100, PAGE]))


def end_is_zeros(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + b"\0" * (len(data) - at)


def empty(data: bytes, chance: random.Random) -> bytes:
    return b""


def of_another_format(data: bytes, chance: random.Random) -> bytes:
    return chance.choice(
        [b"something else entirely\n" * 1_000, b"{}", b"\x89PNG\r\n", b"\0" * PAGE]
    )


KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    kind.__name__: kind
    for kind in (
        one_bit,
        bits_everywhere,
        head_of_the_file,
        head_of_a_page,
        a_letter,
        a_page_overwritten,
        cut_short,
        cut_by_pages,
        zeros_at_the_end,
        noise_at_the_end,
        end_is_zeros,
        empty,
        of_another_format,
    )
}
"""Damages by name; each changes the bytes of a file that is not empty."""


def damage(path: Path, kind: str, chance: random.Random) -> bytes:
    """Damages the file `path`; returns the bytes that are in it now."""
    data = KINDS[kind](path.read_bytes(), chance)
    path.write_bytes(data)
    return data
