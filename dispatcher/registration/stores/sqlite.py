"""SqliteEntityStore: registered entities in a file that survives the process, however it ends."""

from __future__ import annotations

import itertools
import logging
import os
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from zlib import crc32

from dispatcher.registration._model.emissions import Stored
from dispatcher.registration.errors import EntityStoreError
from limiters._support.validation import ArgumentError

_log = logging.getLogger("dispatcher.registration")

_FORMAT = 2

# With row numbers, although no one asks by them: in a file that was cut short they still find
# what is left.
_TABLES = (
    "CREATE TABLE IF NOT EXISTS entities (sequence INTEGER NOT NULL, entity TEXT NOT NULL UNIQUE, "
    "record TEXT NOT NULL, checksum INTEGER NOT NULL)",
    # One row: the last number that was given, also to an entity that is removed by now.
    "CREATE TABLE IF NOT EXISTS numbering (last INTEGER NOT NULL)",
)
_PUT = (
    "INSERT INTO entities VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "sequence = excluded.sequence, record = excluded.record, checksum = excluded.checksum"
)
_KNOWN = (
    ("locked", "is in use by another gate; give each its own, or use a RedisEntityStore"),
    ("full", "cannot grow: its disk is full; free some space, then register again"),
    ("unable to open", "cannot be opened; does its directory exist, and may it be written to?"),
    ("readonly", "cannot be written to; give this user the right to write it and its directory"),
    ("disk I/O", "cannot be written to; is its disk full or failing?"),
)


class SqliteEntityStore:
    """Keeps the entities of one gate in the SQLite file `path`.

    What was acknowledged survives SIGKILL at any moment, and a power cut as far as the disk
    keeps what it has synced: each registration is a transaction of its own, those of
    `register_many` are one together, and it is on the disk before the call returns. A store that
    is damaged is put aside under another name; what is whole in it is used, and the gate and the
    log say what was not. One gate uses a file at a time; another, also of another process, is
    refused with EntityStoreError.

    Not thread-safe; the gate calls it under its lock. It does not work on in a forked child.

    >>> import os, tempfile
    >>> from dispatcher.registration import RegistrationGate, SqliteEntityStore
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "entities.db")
    ...     with RegistrationGate(SqliteEntityStore(path)) as gate:
    ...         _ = gate.register("meter", data={"id": 7})
    ...     with RegistrationGate(SqliteEntityStore(path)) as gate:
    ...         gate.register("meter", data={"id": 7}), gate.offer("meter", 21.5)[0].messages
    ([], (21.5,))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise ArgumentError("path", path, "be the path of a file")
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._process = -1
        self._sequence = 0

    @property
    def sequence(self) -> int:
        """See LocalStore."""
        return self._sequence

    def load(self) -> tuple[dict[str, str], list[str]]:
        """See LocalStore."""
        try:
            self._connection = self._opened()
            known, broken, self._sequence = _read(self._connection)
        except sqlite3.DatabaseError as error:
            self.close()
            if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
                raise self._explained(error) from error
            broken, why = [], str(error)
        else:
            if not broken:
                return known, []
            self.close()
            why = f"{len(broken)} records are not as they were written"
        known = self._start_over(why)
        names = [f"{self._path}: the record of {one!r} is damaged and left out" for one in broken]
        return known, names or [f"{self._path}: {why}"]

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """See LocalStore."""
        numbered = enumerate(records.items(), self._sequence + 1)
        stored = [Stored(number, *record) for number, record in numbered]
        self._write(stored, removed, self._sequence + len(stored))

    def emitted(self, since: int) -> list[Stored]:
        """See LocalStore."""
        connection = self._usable()
        try:
            rows = connection.execute(
                "SELECT sequence, entity, record FROM entities WHERE sequence > ?", (since,)
            ).fetchall()
        except sqlite3.Error as error:
            raise self._explained(error) from error
        return [Stored(*row) for row in rows]

    def close(self) -> None:
        """Lets go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            with suppress(sqlite3.Error):  # nothing is lost: what is not merged is in the log
                connection.close()

    # Inside.

    def _write(self, stored: list[Stored], removed: Collection[str], sequence: int) -> None:
        connection = self._usable()
        try:
            with _transaction(connection):
                connection.executemany(_PUT, [(*one, _checksum(*one)) for one in stored])
                connection.executemany(
                    "DELETE FROM entities WHERE entity = ?", [(one,) for one in removed]
                )
                connection.execute("UPDATE numbering SET last = ?", (sequence,))
        except sqlite3.Error as error:
            raise self._explained(error) from error
        self._sequence = sequence

    def _usable(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():
            raise EntityStoreError(
                f"{self._path} is not open in this process; make a store and a gate of its own "
                "in each process, with another path, or use a RedisEntityStore"
            )
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        self._process = os.getpid()
        connection = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            # Exclusive, and at once: two gates with one file would each miss what the other
            # is told.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            with _transaction(connection):
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version not in (0, _FORMAT):
                    raise EntityStoreError(
                        f"{self._path} is of format {version}, and this version knows "
                        f"{_FORMAT}; use the version that wrote it, or another path"
                    )
                for table in _TABLES:
                    connection.execute(table)
                if connection.execute("SELECT 1 FROM numbering").fetchone() is None:
                    connection.execute("INSERT INTO numbering VALUES (0)")
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _start_over(self, why: str) -> dict[str, str]:
        """Puts the damaged file aside, and begins another with what can be read of it."""
        aside = next(
            path
            for number in itertools.count(1)
            if not (path := self._path.with_name(f"{self._path.name}.damaged-{number}")).exists()
        )
        for ending in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{self._path}{ending}", f"{aside}{ending}")
        os.replace(self._path, aside)
        stored = salvaged(aside)
        _log.error(
            "%s is damaged (%s); %d entities could be read of it and are used, and what is left "
            "of the file is %s",
            *(self._path, why, len(stored), aside),
            extra={
                "happening": "store-damaged",
                "path": str(self._path),
                "aside": str(aside),
                "entities": len(stored),
            },
        )
        try:
            self._connection = self._opened()
        except sqlite3.Error as again:
            raise self._explained(again) from again
        # A number that is given twice would be one that a consumer has handled; which ones the
        # file has lost is unknown, and the time in microseconds is above any of them.
        highest = max((one.sequence for one in stored), default=0)
        self._write(stored, (), max(highest, time.time_ns() // 1_000))
        return {one.entity: one.record for one in stored}

    def _explained(self, error: sqlite3.Error) -> EntityStoreError:
        said = str(error)
        words = next((words for sign, words in _KNOWN if sign in said), "cannot be used")
        return EntityStoreError(f"{self._path} {words} ({said})")


def salvaged(path: Path) -> list[Stored]:
    """Every entity that is whole in a damaged file: each is looked for by itself, so that one
    that cannot be read hides no other."""
    known: dict[str, Stored] = {}
    with suppress(sqlite3.Error, OSError), closing(sqlite3.connect(path)) as connection:
        # So that a file that was cut short is read at all.
        connection.execute("PRAGMA writable_schema = ON")
        # What was removed has left gaps; but no row takes less than 16 bytes.
        rows = range(1, path.stat().st_size // 16 + 1_000)
        for row in rows:
            with suppress(sqlite3.Error):
                found = connection.execute(
                    "SELECT sequence, entity, record, checksum FROM entities WHERE rowid = ?",
                    (row,),
                ).fetchone()
                if found is not None and found[3] == _checksum(*found[:3]):
                    known[found[1]] = Stored(*found[:3])
    return list(known.values())


def _checksum(sequence: int, entity: str, record: str) -> int:
    return crc32(f"{sequence} {entity}{record}".encode())


def _read(connection: sqlite3.Connection) -> tuple[dict[str, str], list[str], int]:
    """All records, whose are not as they were written, and the last number that was given."""
    rows = connection.execute("SELECT sequence, entity, record, checksum FROM entities")
    known, broken = {}, []
    for sequence, entity, record, checksum in rows:
        if checksum == crc32(f"{sequence} {entity}{record}".encode()):
            known[entity] = record
        else:
            broken.append(entity)
    (last,) = connection.execute("SELECT last FROM numbering").fetchone()
    return known, broken, last


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # some errors have rolled it back already
            connection.execute("ROLLBACK")
        raise
