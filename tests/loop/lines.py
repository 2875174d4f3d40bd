"""The files in which the tools record what they have run: a header, and a line for each entry,
appended as it ends, so that they can go on elsewhere and on another day."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

RECORDS = ("tests/loop.tsv", "tests/simulation/storms.tsv", "tests/twins/histories.tsv")
"""Files that are committed. A commit of these alone does not change what is tested."""

Entry = TypeVar("Entry")


class RecordError(ValueError):
    """A file cannot be used, for the reason in the message."""


def append(path: Path, header: str, line: str = "") -> None:
    """Write a line, behind the header. Without a line: create the file, or see that it can be
    written."""
    try:
        with path.open("a+b") as file:
            if file.tell() == 0:
                file.write(header.encode())
            elif line:
                file.seek(-1, 2)
                if file.read() != b"\n":  # an editor left the last line without an end
                    file.write(b"\n")
            file.write(line.encode())
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror}") from error


def read(path: Path, header: str, parse: Callable[[str], Entry], what: str) -> list[Entry]:
    """All entries so far. `what` names one in the message of RecordError."""
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    lines = enumerate(text.splitlines(), 1)
    return [
        _parsed(path, number, line, parse, what) for number, line in lines if f"{line}\n" != header
    ]


def _parsed(path: Path, number: int, line: str, parse: Callable[[str], Entry], what: str) -> Entry:
    try:
        return parse(line)
    except ValueError:
        raise RecordError(
            f"{path}, line {number}: not {what}, correct or delete it: {line!r}"
        ) from None


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """RecordError if another process is in such a block for the same file. The lock ends with the
    process, however that ends."""
    try:
        file = path.with_name(f".{path.name}.lock").open("ab")
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RecordError(f"{path} is in use: this program is already running") from None
        yield
