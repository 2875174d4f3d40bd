"""SqliteEntityStore: registered entities in a file that survives the process, however it ends."""

from __future__ import annotations

import itertools
import logging
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from zlib import crc32

from dispatcher.registration.errors import EntityStoreError

_log = logging.getLogger(__name__)

_FORMAT = 1

# With row numbers, although no one asks by them: in a file that was cut short they still find
# what is left.
_TABLE = (
    "CREATE TABLE IF NOT EXISTS entities "
    "(entity TEXT NOT NULL UNIQUE, record TEXT NOT NULL, checksum INTEGER NOT NULL)"
)
_PUT = (
    "INSERT INTO entities VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
    "SET record = excluded.record, checksum = excluded.checksum"
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
    keeps what it has synced: each registration is a transaction of its own, and is on the disk
    before `register` returns. A store that is damaged is put aside under another name; what
    is whole in it is used, and the gate and the log say what was not. One gate uses a file at a
    time; another, also of another process, is refused with EntityStoreError.

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
            raise ValueError(f"path must be the path of a file, not {path!r}")
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._process = -1

    def load(self) -> tuple[dict[str, str], list[str]]:
        """See LocalStore."""
        try:
            self._connection = self._opened()
            known, broken = _read(self._connection)
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
        connection = self._connection
        if connection is None or self._process != os.getpid():
            raise EntityStoreError(
                f"{self._path} is not open in this process; make a store and a gate of its own "
                "in each process, with another path, or use a RedisEntityStore"
            )
        try:
            with _transaction(connection):
                connection.executemany(
                    _PUT, [(one, text, _checksum(one, text)) for one, text in records.items()]
                )
                connection.executemany(
                    "DELETE FROM entities WHERE entity = ?", [(one,) for one in removed]
                )
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def close(self) -> None:
        """Lets go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            with suppress(sqlite3.Error):  # nothing is lost: what is not merged is in the log
                connection.close()

    # Inside.

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
                connection.execute(_TABLE)
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
        known = salvaged(aside)
        _log.error(
            "%s is damaged (%s); %d entities could be read of it and are used, and what is left "
            "of the file is %s",
            *(self._path, why, len(known), aside),
            extra={
                "happening": "store-damaged",
                "path": str(self._path),
                "aside": str(aside),
                "entities": len(known),
            },
        )
        try:
            self._connection = self._opened()
        except sqlite3.Error as again:
            raise self._explained(again) from again
        self.save(known)
        return known

    def _explained(self, error: sqlite3.Error) -> EntityStoreError:
        said = str(error)
        words = next((words for sign, words in _KNOWN if sign in said), "cannot be used")
        return EntityStoreError(f"{self._path} {words} ({said})")


def salvaged(path: Path) -> dict[str, str]:
    """Every entity that is whole in a damaged file: each is looked for by itself, so that one
    that cannot be read hides no other."""
    known: dict[str, str] = {}
    with suppress(sqlite3.Error, OSError), closing(sqlite3.connect(path)) as connection:
        # So that a file that was cut short is read at all.
        connection.execute("PRAGMA writable_schema = ON")
        # What was removed has left gaps; but no row takes less than 16 bytes.
        rows = range(1, path.stat().st_size // 16 + 1_000)
        for row in rows:
            with suppress(sqlite3.Error):
                found = connection.execute(
                    "SELECT entity, record, checksum FROM entities WHERE rowid = ?", (row,)
                ).fetchone()
                if found is not None and found[2] == _checksum(*found[:2]):
                    known[found[0]] = found[1]
    return known


def _checksum(entity: str, record: str) -> int:
    return crc32(f"{entity}{record}".encode())


def _read(connection: sqlite3.Connection) -> tuple[dict[str, str], list[str]]:
    """All records, and whose are not as they were written."""
    rows = connection.execute("SELECT entity, record, checksum FROM entities")
    known, broken = {}, []
    for entity, record, checksum in rows:
        if checksum == crc32(f"{entity}{record}".encode()):
            known[entity] = record
        else:
            broken.append(entity)
    return known, broken


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
