"""Content of a file of entities: records, each with a checksum, and their number.

One row is an entity with its record. An empty record marks an entity that was removed: older copies
of it may be left elsewhere in the file, and must not be taken for it. The row without a name has
the totals. It is written with every change, so a missing record is noticed.

Names and records have no control characters in the file. The bytes before a row do, so no text
looks like a row, and no name of a device is taken for one.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from dispatcher.registration._model.emissions import Stored

FORMAT = 3
"""Numbers of later formats differ from it in more than one bit: a single flipped bit is damage."""
HIGHEST_FORMAT = 1_000
"""No format has a higher number: in a file with the totals of a store, such a number is damage."""
BEFORE = 2
"""The previous format, without totals, which is converted."""

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

_CONTROLS = re.compile(r"[\x00-\x1f]")
_ESCAPED = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPES = re.compile(r"\x7f([01][0-9a-f]|7f)")


class EntityRow(NamedTuple):
    """One row, as it is stored."""

    sequence: int
    entity: str
    record: str
    checksum: int


class BrokenRow(NamedTuple):
    """A row that is not as it was written: each column may have any value."""

    sequence: object
    entity: object
    record: object
    checksum: object

    @property
    def name(self) -> str:
        """The value in the place of the name, "" if it can be no name."""
        try:
            text = self.entity.decode() if isinstance(self.entity, bytes) else ""
        except UnicodeDecodeError:
            return ""
        return "" if _CONTROLS.search(text) else text

    def is_a_copy_of(self, row: EntityRow) -> bool:
        """Whether it is that row, but for one column."""
        columns = (row.sequence, row.entity.encode(), row.record.encode(), row.checksum)
        return [one == other for one, other in zip(self, columns, strict=True)].count(False) == 1


class StoreTotals(NamedTuple):
    """The content of the row without a name."""

    sequence: int
    """The last number that was given, possibly to an entity that is removed by now."""
    version: int
    """How often the file has changed: of two such rows the higher one counts."""
    entities: int
    """Number of registered entities."""
    checksums: int
    """The sum of their checksums."""

    def row(self) -> EntityRow:
        """Return the row that stores these totals."""
        text = json.dumps([FORMAT, self.version, self.entities, self.checksums])
        return row_of(self.sequence, _NAMELESS, text)


class Contents(NamedTuple):
    """Undamaged rows, as they were found."""

    records: dict[str, EntityRow]
    """The last record of each registered entity."""
    totals: StoreTotals | None
    removed: int
    """Number of rows of entities that were removed."""

    @property
    def is_complete(self) -> bool:
        """Whether these are all rows that were stored."""
        return self.totals is not None and self.totals[2:] == sums_of(self.records.values())


def checksum(sequence: int, entity: bytes, record: bytes) -> int:
    """Return the checksum of a row."""
    return crc32(b"%d %b%b" % (sequence, entity, record))


def row_of(sequence: int, entity: str, record: str) -> EntityRow:
    """Return a row with its checksum."""
    return EntityRow(sequence, entity, record, checksum(sequence, entity.encode(), record.encode()))


def stored_name(entity: str) -> str:
    """Return a name as it is written to the file.

    >>> stored_name("meter\\n7"), name_of(stored_name("meter\\n7"))
    ('meter\\x7f0a7', 'meter\\n7')
    """
    return _ESCAPED.sub(lambda found: f"\x7f{ord(found[0]):02x}", entity)


def name_of(stored: str) -> str:
    """Return the name that was encoded."""
    if "\x7f" not in stored:
        return stored
    return _ESCAPES.sub(lambda found: chr(int(found[1], 16)), stored)


def sums_of(rows: Iterable[EntityRow]) -> tuple[int, int]:
    """Return the number of rows, and the sum of their checksums."""
    checksums = [one.checksum for one in rows]
    return len(checksums), sum(checksums)


def contents_of(rows: Iterable[EntityRow]) -> Contents:
    """Combine rows in any order and of any age."""
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


def as_written_now(before: Contents) -> Contents:
    """Convert the previous format, in which names were written unchanged."""
    rows = [
        row_of(one.sequence, stored_name(one.entity), one.record) for one in before.records.values()
    ]
    return before._replace(records={one.entity: one for one in rows})


def _age(one: EntityRow) -> tuple[int, bool]:
    return one.sequence, one.record == REMOVED


def _totals_in(one: EntityRow) -> list[StoreTotals]:
    with suppress(ValueError, TypeError):
        form, version, entities, checksums = map(int, json.loads(one.record))
        if form == FORMAT:
            return [StoreTotals(one.sequence, version, entities, checksums)]
    return []


def totals_in(connection: sqlite3.Connection) -> StoreTotals:
    """Read the totals as of the last transaction. They are read each time: an exception between a
    transaction and a copy in memory would leave an outdated copy."""
    found = connection.execute(
        "SELECT sequence, entity, record, checksum FROM entities WHERE entity = ''"
    ).fetchone()
    totals = _totals_in(EntityRow(*found)) if found else []
    if not totals or totals[0].row() != found:
        raise sqlite3.DatabaseError("its totals are not as they were written")
    return totals[0]


def put(connection: sqlite3.Connection, records: Mapping[str, str], removed: Iterable[str]) -> None:
    """Write records and removals, inside a transaction. Return the totals."""
    totals = totals_in(connection)
    numbered = enumerate(records.items(), totals.sequence + 1)
    stored = [Stored(number, *record) for number, record in numbered]
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
    """Fill the empty file `path` with a store of these records. It is not a store before that is
    done, and not safe from a power failure before it is synced."""
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
    """Commit all of the block, or nothing."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # some errors have rolled it back already
            connection.execute("ROLLBACK")
        raise
