"""SqliteEntityStore: registered entities in a file that survives the process, however it ends."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dispatcher.registration._model.emissions import Stored
from dispatcher.registration._model.reports import CORRUPT, Report
from dispatcher.registration._sqlite.examination import Examination, examine
from dispatcher.registration._sqlite.place import StorePlace
from dispatcher.registration._sqlite.records import (
    BEFORE,
    FORMAT,
    Contents,
    StoreTotals,
    as_written_now,
    name_of,
    put,
    stored_name,
    sums_of,
    totals_in,
    transaction,
    write_new,
)
from dispatcher.registration._sqlite.salvage import rows_in, salvaged
from dispatcher.registration.errors import EntityStoreError
from limiters._support.validation import ArgumentError

_log = logging.getLogger("dispatcher.registration")

_IN_USE = "is in use by another gate; give each its own, or use a RedisEntityStore"
_FULL = "cannot grow: its disk is full; free some space, then register again"
_KNOWN = (
    ("locked", _IN_USE),
    ("full", _FULL),
    ("No space left", _FULL),
    ("quota exceeded", _FULL),
    ("unable to open", "cannot be opened; does its directory exist, and may it be written to?"),
    ("No such file", "cannot be opened; does its directory exist, and may it be written to?"),
    ("readonly", "cannot be written to; give this user the right to write it and its directory"),
    ("ermission", "cannot be written to; give this user the right to write it and its directory"),
    ("disk I/O", "cannot be written to; is its disk full or failing?"),
)

_MOST_REMOVED = 1_000
"""How many rows of removed entities stay in a file in any case: it is written anew when they are
more than that, and more than the others."""
_LARGEST = 2**63 - 1
"""The largest number that SQLite knows."""
_MOST_NAMED = 1_000
"""How many lost entities are told by their names."""


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
        self._place: StorePlace | None = None

    @property
    def sequence(self) -> int:
        """See LocalStore."""
        with self._settled() as connection:
            return totals_in(connection).sequence

    def load(self) -> tuple[dict[str, str], list[Report]]:
        """See LocalStore."""
        try:
            self._place = StorePlace(self._path)
            contents, reports = self._put_in_order(self._place)
            self._open()
            return {name_of(name): one.record for name, one in contents.records.items()}, reports
        except BlockingIOError:
            raise EntityStoreError(f"{self._path} {_IN_USE}") from None
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise self._explained(error) from error
        except BaseException:
            self.close()
            raise

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """See LocalStore."""
        with self._settled() as connection, transaction(connection):
            named = {stored_name(entity): record for entity, record in records.items()}
            put(connection, named, [stored_name(entity) for entity in removed])

    def emitted(self, since: int) -> list[Stored]:
        """See LocalStore."""
        with self._settled() as connection:
            rows = connection.execute(
                "SELECT sequence, entity, record FROM entities "
                "WHERE sequence > ? AND entity <> '' AND record <> ''",
                (min(since, _LARGEST),),
            ).fetchall()
        return [Stored(number, name_of(name), record) for number, name, record in rows]

    def close(self) -> None:
        """Lets go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            with suppress(sqlite3.Error):  # nothing is lost: what is not merged is in the log
                connection.close()
        if self._place is not None:
            self._place.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # its path was refused
            self.close()  # else its connection keeps the file until the garbage is collected

    # Inside.

    def _put_in_order(self, place: StorePlace) -> tuple[Contents, list[Report]]:
        """Makes the file one that is whole, of this format: what is in it, and what is lost."""
        nothing = Contents({}, None, 0)
        if not place.is_taken:
            return self._written(place, nothing, 0), []
        found = examine(place.path, place.log)
        if found.is_new:
            return self._written(place, nothing, 0), []
        if found.is_sound and not found.contents.totals and found.version != BEFORE:
            self._check_is_a_store(place, found.version)
        if found.why:
            return self._salvaged(place, found)
        contents = found.contents
        if found.version == BEFORE:
            return self._written(place, contents, found.sequence), []
        if contents.removed > max(_MOST_REMOVED, len(contents.records)):
            with suppress(OSError, sqlite3.Error):  # no room: it stays as it is
                assert contents.totals is not None
                contents = self._written(place, contents, contents.totals.sequence)
        return contents, []

    def _check_is_a_store(self, place: StorePlace, version: int) -> None:
        if next(rows_in(place.path, place.log), None) is None:
            raise EntityStoreError(
                f"{self._path} is of format {version}, and this version knows {FORMAT}; "
                "use the version that wrote it, or another path"
            )

    def _written(self, place: StorePlace, contents: Contents, sequence: int) -> Contents:
        """Puts a new file in its place."""
        records = {one.entity: one for one in map(as_written_now, contents.records.values())}
        place.put(lambda path: write_new(path, records.values(), sequence))
        return Contents(records, StoreTotals(sequence, 1, *sums_of(records.values())), 0)

    def _salvaged(self, place: StorePlace, found: Examination) -> tuple[Contents, list[Report]]:
        """Keeps the damaged file under another name, and begins another with what is whole."""
        contents, is_certain = salvaged(place.path, place.log, found)
        aside = place.keep()
        reports = self._losses(found, contents, is_certain, aside)
        # A number that is given twice would be one that a consumer has handled; which ones the
        # file has lost is unknown, and the time in microseconds is above any of them.
        highest = max((one.sequence for one in contents.records.values()), default=0)
        new = self._written(place, contents, max(highest, time.time_ns() // 1_000))
        _log.error(
            "%s is damaged (%s); %d entities could be read of it and are used, %s are lost, and "
            "the damaged file is kept as %s",
            self._path,
            found.why,
            len(contents.records),
            sum(one.registrations for one in reports) or "none",
            aside,
            extra={
                "happening": "store-damaged",
                "path": str(self._path),
                "aside": str(aside),
                "entities": len(contents.records),
            },
        )
        return new, reports

    def _losses(
        self, found: Examination, contents: Contents, is_certain: bool, aside: Path
    ) -> list[Report]:
        """What is not whole: by name where that can be read, else how many, if that is certain."""
        broken = {one.name for one in found.broken if one.record != b""}
        names = sorted(broken - contents.records.keys() - {""})
        kept = f"the damaged file is kept as {aside}"
        why = f"{self._path}: {found.why}; {kept}"
        stored = contents.totals.entities if contents.totals else 0
        lost = max(0, stored - len(contents.records))
        if not (is_certain and (lost or contents.is_complete)):
            lost = max(1, lost, len(names))
            why += "; how many entities are lost is not known"
            is_certain = False
        if len(names) > lost:
            names = []  # some were removed before, and nothing tells which
        named = [
            Report(
                CORRUPT,
                entity,
                1,
                reason=f"{self._path}: the record of {entity!r} is damaged and left out; {kept}",
            )
            for entity in map(name_of, names[:_MOST_NAMED])
        ]
        if is_certain and named and len(named) == lost:
            return named
        return [Report(CORRUPT, "", lost - len(named), reason=why), *named]

    @contextmanager
    def _settled(self) -> Iterator[sqlite3.Connection]:
        """The file as of the last transaction."""
        if self._connection is None or self._process != os.getpid():
            raise EntityStoreError(
                f"{self._path} is not open in this process; make a store and a gate of its own "
                "in each process, with another path, or use a RedisEntityStore"
            )
        try:
            # An exception of a signal handler may have ended the last call at any moment.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            yield self._connection
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _open(self) -> None:
        self._process = os.getpid()
        connection = self._connection = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # so that salvaging finds few outdated rows
        with transaction(connection):
            pass

    def _explained(self, error: Exception) -> EntityStoreError:
        said = str(error)
        words = next((words for sign, words in _KNOWN if sign in said), "cannot be used")
        return EntityStoreError(f"{self._path} {words} ({said})")
