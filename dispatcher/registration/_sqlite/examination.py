"""Check whether a file of entities is undamaged, without changing it."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from dispatcher.registration._sqlite.records import (
    BEFORE,
    FORMAT,
    TABLES,
    BrokenRow,
    Contents,
    EntityRow,
    checksum,
    contents_of,
)

_THE_FILE = (
    *("ERROR", "CORRUPT", "NOTADB", "FORMAT", "MISMATCH", "TOOBIG", "SCHEMA", "RANGE"),
    "IOERR_SHORT_READ",
)
"""Names of SQLite's errors that the content of the file can cause. All others come from the system:
a full or unreadable disk, no memory, no file handles, no permission to write."""

_VERSIONS = (b"\x01\x01", b"\x02\x02")
"""Bytes 18 and 19 of a file, without and with a write-ahead log. SQLite takes other values for
those of a later version, which may be read but not written."""
_NO_TEXTS = "SELECT count(*) FROM entities WHERE typeof(entity) || typeof(record) <> 'texttext'"
"""A single flipped bit turns a text into bytes; as such it is not found, or not equal."""
_DAMAGED_LOG = "its log of writes is damaged"
_HEAD_OF_FILE = 100
"""Length of the file's header in bytes."""
_MAGIC = bytes.fromhex("377f06")
_HEAD_OF_LOG, _HEAD_OF_FRAME = struct.Struct(">8I"), struct.Struct(">6I")


class Examination(NamedTuple):
    """Result of an examination of a file by SQLite."""

    why: str
    """The reason why it is damaged; "" if it is not."""
    version: int
    """The number of its format, if it can be read."""
    contents: Contents
    """The rows that are not damaged."""
    broken: list[BrokenRow]
    """The rows that are damaged."""
    sequence: int = 0
    """The last number that was given, in a file without totals."""
    is_sound: bool = False
    """Whether it is an undamaged SQLite file, of any application."""
    is_new: bool = False
    """Whether it never contained anything."""
    is_log_whole: bool = False
    """Whether nothing is missing in its write-ahead log."""
    tables: frozenset[str] = frozenset()
    """The commands that created its tables, as far as they can be read."""


def examine(path: Path, log: Path) -> Examination:
    """Examine a whole file. sqlite3.Error or OSError if it cannot be examined, for reasons other
    than its content."""
    rows: list[EntityRow] = []
    broken: list[BrokenRow] = []
    version = 0
    sequence: Any = 0
    is_sound = False
    tables: set[str] = set()
    size = _size_of(path)
    if size < _HEAD_OF_FILE:
        # SQLite would take it for a new one, and delete the write-ahead log.
        why = "it is cut short" if size else "it is empty"
        return Examination(why, version, contents_of(rows), broken)
    try:
        # Only a connection that cannot write leaves the write-ahead log in place when it closes.
        place = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(place, uri=True, timeout=0)) as connection:
            connection.text_factory = bytes
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            tables = _tables(connection)
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            is_sound = found == b"ok"
            why = "" if is_sound else bytes(found).decode(errors="replace")
            why = " ".join(why.split())  # it has several lines
            _read(connection, rows, broken)
            (no_texts,) = connection.execute(_NO_TEXTS).fetchone()
            why = why or (f"texts that are kept as bytes: {no_texts}" if no_texts else "")
            if version == BEFORE:
                (sequence,) = connection.execute("SELECT last FROM numbering").fetchone()
    except UnicodeDecodeError:
        why = "its tables have names that are no texts"  # which SQLite's own error shows
    except sqlite3.Error as error:
        if not error.sqlite_errorname.removeprefix("SQLITE_").startswith(_THE_FILE):
            raise
        why = str(error)
    contents = contents_of(rows)
    if broken:
        why = f"rows that are not as they were written: {len(broken)}"
    elif not why and tables != TABLES.get(version):
        why = "its tables are not those that a store makes"
    elif not why and version == FORMAT and not contents.is_complete:
        why = "records are missing in it"
    elif not why and not isinstance(sequence, int):
        why = "the last number is not one"
    elif not why and _versions_of(path) not in _VERSIONS:
        why = "its version is none of SQLite's"
    log_damage, is_log_whole = _log_damage(log)
    why = why or log_damage
    is_new = is_sound and version == 0 and not tables and not _size_of(log)
    last = sequence if isinstance(sequence, int) else 0
    return Examination(
        why, version, contents, broken, last, is_sound, is_new, is_log_whole, frozenset(tables)
    )


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _versions_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_OF_FILE)[18:20]


def _tables(connection: sqlite3.Connection) -> set[str]:
    made = connection.execute("SELECT sql FROM sqlite_master WHERE type <> 'index'").fetchall()
    return {bytes(sql or b"").decode(errors="replace") for (sql,) in made}


def _read(connection: sqlite3.Connection, rows: list[EntityRow], broken: list[BrokenRow]) -> None:
    for sequence, entity, record, told in connection.execute(
        "SELECT sequence, entity, record, checksum FROM entities"
    ):
        try:
            if told == checksum(sequence, entity, record):
                rows.append(EntityRow(sequence, entity.decode(), record.decode(), told))
                continue
        except (TypeError, UnicodeDecodeError):  # of another type, or no text
            pass
        broken.append(BrokenRow(sequence, entity, record, told))


def _log_damage(log: Path) -> tuple[str, bool]:
    """Return the damage to a write-ahead log that a killed process has left, and whether all of its
    pages are intact. SQLite accepts all up to the first damaged page, and reports no transactions
    after it."""
    try:
        data = log.read_bytes()
    except FileNotFoundError:
        return "", True
    if not _MAGIC.startswith(data[: len(_MAGIC)]):
        return "its log of writes is none", False
    if 0 < len(data) < _HEAD_OF_LOG.size:
        return "its log of writes is cut short", False
    if len(data) <= _HEAD_OF_LOG.size + _HEAD_OF_FRAME.size:
        return "", True
    magic, _, size, restarts, *salts, first, second = _HEAD_OF_LOG.unpack_from(data)
    order = {0x377F0682: "<", 0x377F0683: ">"}.get(magic)
    if order is None or _sums(order, data[:24], 0, 0) != (first, second):
        return "the beginning of its log of writes is damaged", False
    why, is_whole, step = "", True, _HEAD_OF_FRAME.size + size
    for at in range(_HEAD_OF_LOG.size, len(data) - step + 1, step):
        number, commits, *frame_salts, one, other = _HEAD_OF_FRAME.unpack_from(data, at)
        if is_whole:
            before = first, second
            page = data[at + _HEAD_OF_FRAME.size : at + _HEAD_OF_FRAME.size + size]
            first, second = _sums(order, data[at : at + 8] + page, *before)
            is_whole = (first, second) == (one, other)
            if is_whole and frame_salts != salts:  # the sums prove that it is of this log
                why = _DAMAGED_LOG
            # A flipped bit makes the end of a transaction of 2 ** bit pages look like its middle.
            if (
                not is_whole
                and commits == 0
                and any(
                    _sums(order, struct.pack(">II", number, 1 << bit) + page, *before)
                    == (one, other)
                    for bit in range(32)
                )
            ):
                return _DAMAGED_LOG, False
        # Pages of an earlier log may follow, or of an incomplete transaction.
        if not is_whole and (number == 0 or _is_of_this_log(frame_salts, salts, commits, restarts)):
            return _DAMAGED_LOG, False
    return why, True


def _is_of_this_log(found: list[int], salts: list[int], commits: int, restarts: int) -> bool:
    """Whether a transaction ended with this page, or nothing shows that it did not. SQLite adds 1
    to the first salt each time that it restarts the log."""
    if found == salts:
        return commits > 0
    return not 0 < (salts[0] - found[0]) % 2**32 <= restarts


def _sums(order: str, data: bytes, first: int, second: int) -> tuple[int, int]:
    """Compute the checksum of SQLite's log, which is continued from page to page."""
    numbers = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(numbers[::2], numbers[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
