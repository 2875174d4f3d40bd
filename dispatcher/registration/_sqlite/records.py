"""What a file of entities holds: records, each with a checksum, and how many there are.

One row is an entity with its record. A row whose record is empty is of an entity that was removed:
older copies of it may be left elsewhere in the file, and must not be taken for it. The row without
a name tells the totals. It is written with every change, so a record that is missing is noticed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from dispatcher.registration._model.emissions import Stored

FORMAT = 3
"""Numbers of later formats differ from it in more than one bit: a single one that is flipped is
damage."""
BEFORE = 2
"""The format without totals, which is converted."""

TABLE = (
    "CREATE TABLE entities (sequence INTEGER NOT NULL, entity TEXT NOT NULL UNIQUE, "
    "record TEXT NOT NULL, checksum INTEGER NOT NULL)"
)
TABLES = {
    FORMAT: {TABLE},
    BEFORE: {TABLE, "CREATE TABLE numbering (last INTEGER NOT NULL)"},
}

PUT = (
    "INSERT INTO entities VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "sequence = excluded.sequence, record = excluded.record, checksum = excluded.checksum"
)
REMOVED = ""
"""The record of an entity that was removed."""
_NAMELESS = ""
_NAMES_AT_ONCE = 500


class EntityRow(NamedTuple):
    """One row, as it is stored."""

    sequence: int
    entity: str
    record: str
    checksum: int


class StoreTotals(NamedTuple):
    """What the row without a name tells."""

    sequence: int
    """The last number that was given, also to an entity that is removed by now."""
    version: int
    """How often the file has changed: of two such rows the higher one counts."""
    entities: int
    """How many are registered."""
    checksums: int
    """The sum of their checksums."""

    def row(self) -> EntityRow:
        """As it is stored."""
        text = json.dumps([FORMAT, self.version, self.entities, self.checksums])
        return row_of(self.sequence, _NAMELESS, text)


class Contents(NamedTuple):
    """Rows that are whole, as they were found."""

    records: dict[str, EntityRow]
    """The last one of each entity that is registered."""
    totals: StoreTotals | None
    removed: int
    """How many rows are of entities that were removed."""

    @property
    def is_complete(self) -> bool:
        """Whether these are all that were stored."""
        return self.totals is not None and self.totals[2:] == sums_of(self.records.values())


def checksum(sequence: int, entity: bytes, record: bytes) -> int:
    """Of what is in a row."""
    return crc32(b"%d %b%b" % (sequence, entity, record))


def row_of(sequence: int, entity: str, record: str) -> EntityRow:
    """A row with its checksum."""
    return EntityRow(sequence, entity, record, checksum(sequence, entity.encode(), record.encode()))


def sums_of(rows: Iterable[EntityRow]) -> tuple[int, int]:
    """How many rows these are, and the sum of their checksums."""
    checksums = [one.checksum for one in rows]
    return len(checksums), sum(checksums)


def contents_of(rows: Iterable[EntityRow]) -> Contents:
    """What rows tell together, in any order, of any age."""
    last: dict[str, EntityRow] = {}
    totals: list[StoreTotals] = []
    for one in rows:
        if one.entity == _NAMELESS:
            totals += _totals_in(one)
        # Of the same number, the removal came last.
        elif one.entity not in last or _age(one) > _age(last[one.entity]):
            last[one.entity] = one
    records = {entity: one for entity, one in last.items() if one.record != REMOVED}
    return Contents(records, max(totals, default=None), len(last) - len(records))


def _age(one: EntityRow) -> tuple[int, bool]:
    return one.sequence, one.record == REMOVED


def _totals_in(one: EntityRow) -> list[StoreTotals]:
    with suppress(ValueError, TypeError):
        form, version, entities, checksums = map(int, json.loads(one.record))
        if form == FORMAT:
            return [StoreTotals(one.sequence, version, entities, checksums)]
    return []


def put(
    connection: sqlite3.Connection,
    totals: StoreTotals,
    stored: list[Stored],
    removed: Iterable[str],
) -> StoreTotals:
    """Writes records, and that entities are removed; the totals then. In a transaction."""
    names = {one.entity for one in stored}
    before = _sums_before(connection, names.union(removed))
    rows = [row_of(*one) for one in stored]
    connection.executemany(PUT, rows)
    sequence = stored[-1].sequence if stored else totals.sequence
    gone = [row_of(sequence, entity, REMOVED) for entity in removed]
    connection.executemany(
        "UPDATE entities SET sequence = ?, record = ?, checksum = ? WHERE entity = ?",
        [(one.sequence, one.record, one.checksum, one.entity) for one in gone],
    )
    names.difference_update(removed)
    now = sums_of(one for one in rows if one.entity in names)
    new = StoreTotals(
        sequence,
        totals.version + 1,
        totals.entities - before[0] + now[0],
        totals.checksums - before[1] + now[1],
    )
    connection.execute(PUT, new.row())
    return new


def _sums_before(connection: sqlite3.Connection, names: set[str]) -> tuple[int, int]:
    count = checksums = 0
    left = list(names)
    for start in range(0, len(left), _NAMES_AT_ONCE):
        some = left[start : start + _NAMES_AT_ONCE]
        found = connection.execute(
            "SELECT count(*), coalesce(sum(checksum), 0) FROM entities "
            f"WHERE record <> '' AND entity IN ({','.join('?' * len(some))})",
            some,
        ).fetchone()
        count, checksums = count + found[0], checksums + found[1]
    return count, checksums


def write_new(path: Path, records: Iterable[EntityRow], sequence: int) -> None:
    """Fills the empty file `path` with a store of these records. It is not a store before that
    is done, and not safe from a power cut before it is synced."""
    stored = sorted(records)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        with transaction(connection):
            connection.execute(TABLE)
            row = StoreTotals(sequence, 1, *sums_of(stored)).row()
            connection.executemany(PUT, (row, *stored))
            connection.execute(f"PRAGMA user_version = {FORMAT}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the block is stored, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # some errors have rolled it back already
            connection.execute("ROLLBACK")
        raise
