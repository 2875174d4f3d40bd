"""SqliteEntityStore: registered entities in a file that survives the process, however it ends."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dispatcher.registration._model.emissions import Stored
from dispatcher.registration._model.reports import CORRUPT, Report
from dispatcher.registration._sqlite.examination import Examination, examine
from dispatcher.registration._sqlite.place import StorePlace
from dispatcher.registration._sqlite.records import (
    BEFORE,
    FORMAT,
    HIGHEST_FORMAT,
    TABLES,
    Contents,
    as_written_now,
    name_of,
    put,
    stored_name,
    totals_in,
    transaction,
    write_new,
)
from dispatcher.registration._sqlite.salvage import Salvage, rows_in, salvaged
from dispatcher.registration.errors import EntityStoreError
from limiters._support.validation import ArgumentError
from limiters._support.validation import path as path_of

_log = logging.getLogger("dispatcher.registration")

_IN_USE = "is in use by another gate; give each its own, or use a RedisEntityStore"
_FULL = "cannot grow: its disk is full; free some space, then {then}"
_LIMITED = (
    "cannot grow: this process may not write a file of that size; raise ulimit -f, then {then}"
)
_RIGHTS = "cannot be written to; give this user the right to write it and its directory"
_KNOWN = (
    ("locked", _IN_USE),
    ("full", _FULL),
    ("No space left", _FULL),
    ("uota exceeded", _FULL),
    ("File too large", _LIMITED),
    (
        "unable to open",
        "cannot be opened; does its directory exist, may it be written to, and has this process "
        "file handles left (ulimit -n)?",
    ),
    ("No such file", "cannot be opened; does its directory exist, and may it be written to?"),
    ("Too many open files", "cannot be opened: no file handles are left; see ulimit -n"),
    ("readonly", _RIGHTS),
    ("ermission", _RIGHTS),
    ("not permitted", _RIGHTS),
    ("Read-only", "cannot be written to: its file system is read-only"),
    (
        "disk I/O",
        "cannot be read or written: its disk is full or failing, or files are limited in size "
        "(ulimit -f); fix that, then {then}",
    ),
    (
        "Input/output",
        "cannot be read or written: its disk is failing; copy what can be read to another disk, "
        "then {then}",
    ),
)

_MOST_REMOVED = 1_000
"""Number of rows of removed entities that stay in a file in any case: it is rewritten when there
are more than that, and more than the others."""
_UNKNOWN = "how many is not known"
_LARGEST = 2**63 - 1
"""The largest integer that SQLite stores."""
_MOST_NAMED = 1_000
"""Maximum number of lost entities that are reported by name."""


class SqliteEntityStore:
    """Keeps the entities of one gate in the SQLite file `path`.

    What was acknowledged survives SIGKILL at any moment, and a power failure as far as the disk
    keeps what it has synced: each registration is a transaction, those of `register_many` are one
    together, and it is on the disk before the call returns. A damaged store is renamed; its
    undamaged content is used, and the gate and the log report what was lost. One gate uses a file
    at a time; a second one, also of another process, is refused with EntityStoreError.

    Not thread-safe; the gate calls it under its lock. It does not work in a forked child.

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
        self._path = path_of("path", path, "a file")
        if str(path) == ":memory:":
            advice = "a MemoryEntityStore keeps nothing on a disk"
            raise ArgumentError("path", path, "be the path of a file", advice)
        self._connection: sqlite3.Connection | None = None
        self._process = -1
        self._place: StorePlace | None = None

    @property
    def sequence(self) -> int:
        with self._settled() as connection:
            return totals_in(connection).sequence

    def load(self) -> tuple[dict[str, str], list[Report]]:
        try:
            self._place = StorePlace(self._path)
            contents, reports = self._put_in_order(self._place)
            self._open(self._place.path)
            return {name_of(name): one.record for name, one in contents.records.items()}, reports
        except BlockingIOError:
            raise EntityStoreError(f"{self._path} {_IN_USE}") from None
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise self._explained(error, "start again") from error
        except BaseException:
            self.close()
            raise

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        with self._settled() as connection, transaction(connection):
            named = {stored_name(entity): record for entity, record in records.items()}
            put(connection, named, [stored_name(entity) for entity in removed])

    def emitted(self, since: int) -> list[Stored]:
        with self._settled() as connection:
            rows = connection.execute(
                "SELECT sequence, entity, record FROM entities "
                "WHERE sequence > ? AND entity <> '' AND record <> ''",
                (min(since, _LARGEST),),
            ).fetchall()
        return [Stored(number, name_of(name), record) for number, name, record in rows]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            with suppress(sqlite3.Error):  # nothing is lost: what is not merged is in the log
                connection.close()
        if self._place is not None:
            self._place.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # its path was refused
            self.close()  # otherwise its connection keeps the file until the garbage collection

    # Private.

    def _put_in_order(self, place: StorePlace) -> tuple[Contents, list[Report]]:
        """Repair and convert the file. Return its content, and what is lost."""
        contents = Contents({}, None, 0)
        found = examine(place.path, place.log) if place.is_taken else None
        if found is None or found.is_new:
            self._written(place, contents, 0)
            return contents, []
        self._check_is_a_store(place, found)
        if found.why:
            return self._salvaged(place, found)
        contents = found.contents
        sequence = contents.totals.sequence if contents.totals else found.sequence
        if found.version == BEFORE:
            contents = as_written_now(contents)
        if found.version == BEFORE or place.has_another_name:
            self._written(place, contents, sequence)
        elif contents.removed > max(_MOST_REMOVED, len(contents.records)):
            try:
                place.write(_filling(contents, sequence))
            except (OSError, sqlite3.Error):  # no room: it stays as it is
                return contents, []
            place.replace()  # or the gate is refused: it would write to a file that is replaced
        return contents, []

    def _check_is_a_store(self, place: StorePlace, found: Examination) -> None:
        has_totals = bool(found.contents.totals)
        # A file of this format whose number has a flipped bit is damaged, see FORMAT.
        is_later = found.version > FORMAT and (found.version ^ FORMAT).bit_count() > 1
        is_later &= not (has_totals and found.version > HIGHEST_FORMAT)
        is_of_another = found.is_sound and not has_totals and found.tables != TABLES[BEFORE]
        if not is_later and (not is_of_another or any(rows_in(place.path, place.log))):
            return
        is_foreign = found.tables and not any("TABLE entities" in one for one in found.tables)
        if found.version <= FORMAT or is_foreign:
            raise EntityStoreError(
                f"{self._path} is an SQLite file, but no store of entities; give another path"
            )
        raise EntityStoreError(
            f"{self._path} is of format {found.version}, and this version reads {FORMAT}; "
            "use the version that wrote it, or another path"
        )

    def _written(self, place: StorePlace, contents: Contents, sequence: int) -> None:
        """Write a new file, and replace the old one by it."""
        place.write(_filling(contents, sequence))
        place.replace()

    def _salvaged(self, place: StorePlace, found: Examination) -> tuple[Contents, list[Report]]:
        """Keep the damaged file under another name, and start another with its undamaged rows."""
        salvage = salvaged(place.path, place.log, found)
        if found.tables == TABLES[BEFORE]:
            names = list(map(stored_name, salvage.names))
            salvage = salvage._replace(contents=as_written_now(salvage.contents), names=names)
        records = salvage.contents.records
        # A number that is given twice would be one that a consumer has handled. Which ones the file
        # has lost is unknown, and the time in microseconds is above any of them.
        highest = max((one.sequence for one in records.values()), default=0)
        sequence = max(highest, time.time_ns() // 1_000)
        place.write(_filling(salvage.contents, sequence))
        number = place.free_number()
        aside = place.kept_as(number)
        # Before it replaces the old one: the next start finds nothing damaged.
        _log.error(
            "%s is damaged (%s); entities that could be read of it and are used: %d, and lost: "
            "%s; the damaged file is kept as %s",
            self._path,
            found.why,
            len(records),
            salvage.lost if salvage.is_certain else f"at least {salvage.lost}, {_UNKNOWN}",
            aside,
            extra={
                "happening": "store-damaged",
                "path": str(self._path),
                "aside": str(aside),
                "entities": len(records),
            },
        )
        place.replace(number)
        return salvage.contents, self._losses(found.why, salvage, aside)

    def _losses(self, why: str, salvage: Salvage, aside: Path) -> list[Report]:
        """Report the losses: by name where that can be read, otherwise by number."""
        kept = f"the damaged file is kept as {aside}"
        named = [
            Report(
                CORRUPT,
                entity,
                1,
                reason=f"{self._path}: the record of {entity!r} is damaged and left out; {kept}",
            )
            for entity in map(name_of, salvage.names[:_MOST_NAMED])
        ]
        if salvage.is_certain and 0 < salvage.lost == len(named):
            return named
        told = "" if salvage.is_certain else f"; at least {salvage.lost} lost, {_UNKNOWN}"
        reason = f"{self._path}: {why}; {kept}{told}"
        return [Report(CORRUPT, "", salvage.lost - len(named), reason=reason), *named]

    @contextmanager
    def _settled(self) -> Iterator[sqlite3.Connection]:
        """Return the file as of the last transaction."""
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

    def _open(self, path: Path) -> None:
        self._process = os.getpid()
        connection = self._connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # so that salvaging finds few outdated rows
        with transaction(connection):
            pass

    def _explained(self, error: Exception, then: str = "try again") -> EntityStoreError:
        said = str(error)
        words = next((words for sign, words in _KNOWN if sign in said), "cannot be used")
        return EntityStoreError(f"{self._path} {words.format(then=then)} ({said})")


def _filling(contents: Contents, sequence: int) -> Callable[[Path], None]:
    return lambda path: write_new(path, contents.records.values(), sequence)
