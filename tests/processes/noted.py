"""A file to which many processes append lines, and which is read while they do."""

from __future__ import annotations

import os
from pathlib import Path


def append(path: str, line: str) -> None:
    """One line, in one piece."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def lines(path: str | Path) -> list[str]:
    """All lines that are there. A reader may see the beginning of one that is being written: that
    is none yet."""
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        return []
    whole, _, _ = text.rpartition(b"\n")
    return whole.decode().splitlines()
