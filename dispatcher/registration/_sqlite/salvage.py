"""Recover the undamaged rows of a damaged file: every row that its checksum proves, in whatever
place it lies.

Nothing else in the file is trusted. A damaged page, or a flipped bit in a pointer, hides undamaged
rows from SQLite. So rows are recognized by how SQLite writes them: the sizes of the four columns,
then the columns. A row that does not fit into its page continues in overflow pages, each of which
begins with the number of the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from dispatcher.registration._sqlite.examination import Examination
from dispatcher.registration._sqlite.records import (
    REMOVED,
    Contents,
    EntityRow,
    checksum,
    contents_of,
)

_USUAL_PAGE = 4096
_HEAD_OF_LOG, _HEAD_OF_FRAME = 32, 24
"""Number of bytes before the pages in a write-ahead log, and before each page."""

_NUMBER, _VARINT = rb"([\x01-\x06\x08\x09])", rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_SIZES = re.compile(rb"(?s)(?=([\x05-\x0d])" + _NUMBER + _VARINT + _VARINT + _NUMBER + rb")")
"""The header before a row: its length; then the kind and size of each column."""
_BYTES_OF_NUMBER = (0, 1, 2, 3, 4, 6, 8, 0, 0, 0)
_SHORTEST_TEXT = 13

_PageOf = Callable[[int], bytes]


class Salvage(NamedTuple):
    """The recovered content of a damaged file."""

    contents: Contents
    """The newest undamaged copy of each record."""
    lost: int
    """Number of lost records; at least one if that is not certain."""
    is_certain: bool
    """Whether the number is certain, and no record is outdated."""
    names: list[str]
    """Names of lost entities, as far as they can be read."""


def salvaged(path: Path, log: Path, found: Examination) -> Salvage:
    """Recover a file. Checksums and sequence numbers decide which copy of a record is the newest
    undamaged one, the totals whether all were found. OSError if the file cannot be read."""
    read = found.contents.records
    contents = contents_of([*read.values(), *rows_in(path, log)])
    if contents.is_complete and found.is_log_whole:
        return Salvage(contents, 0, True, [])
    # Only a write-ahead log has outdated copies: SQLite overwrites those in the file.
    unproven = contents.records.keys() - read.keys() if _bytes_of(log) else set()
    for broken in () if contents.is_complete else found.broken:
        copy = contents.records.get(broken.name)
        if copy is not None and broken.name not in read:
            if not broken.is_a_copy_of(copy):
                del contents.records[broken.name]  # it is older
            unproven.discard(broken.name)
    broken_names = {one.name for one in found.broken if one.record != REMOVED.encode()}
    names = sorted(broken_names - contents.records.keys() - {""})
    lost = contents.totals.entities - len(contents.records) if contents.totals else 0
    if (
        found.is_log_whole
        and lost > 0
        and not unproven
        and contents.totals == found.contents.totals
    ):
        # More of them than are lost: some were removed before, and nothing shows which.
        return Salvage(contents, lost, True, names if len(names) <= lost else [])
    # The totals are gone, perhaps outdated, or records that are outdated or were removed are used.
    return Salvage(contents, max(1, lost, len(names)), False, names)


def rows_in(path: Path, log: Path) -> Iterator[EntityRow]:
    """Find every undamaged row in a file and in its write-ahead log, outdated ones too. OSError if
    they cannot be read."""
    main, logged = _bytes_of(path), _bytes_of(log)
    size = _page_size(main[16:18], 2) or _page_size(logged[8:12], 4) or _USUAL_PAGE
    lookups = _lookups(main, logged, size)
    for data in (main, logged):
        behind = 0
        # Not page by page: bytes may be missing, and no page begins where it should.
        for match in _SIZES.finditer(data):
            # The content of a row may look like a row.
            if match.start() >= behind:
                found = (_row_at(data, match, size, page_of) for page_of in lookups)
                row = next((one for one in found if one is not None), None)
                if row is not None:
                    length = len(row.entity.encode()) + len(row.record.encode())
                    behind = match.start() + _in_this_page(length, size)
                    yield row


def _lookups(main: bytes, logged: bytes, size: int) -> list[_PageOf]:
    """Return functions that find a page by its number: its present and its previous content."""
    starts = range(_HEAD_OF_LOG, len(logged), _HEAD_OF_FRAME + size)
    newest = {int.from_bytes(logged[at : at + 4]): at + _HEAD_OF_FRAME for at in starts}

    def of_main(number: int) -> bytes:
        return main[(number - 1) * size : number * size] if number > 0 else b""

    def by_now(number: int) -> bytes:
        at = newest.get(number)
        return of_main(number) if at is None else logged[at : at + size]

    return [by_now, of_main]


def _bytes_of(path: Path) -> bytes:
    # OSError if the disk cannot read all of it: it may be able to the next time.
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _page_size(told: bytes, width: int) -> int:
    size = int.from_bytes(told) if len(told) == width else 0
    return size if size in (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536) else 0


def _row_at(data: bytes, match: re.Match[bytes], size: int, page_of: _PageOf) -> EntityRow | None:
    head, first, entity, record, last = match.groups()
    texts = [_varint(entity), _varint(record)]
    length = 3 + len(entity) + len(record)
    if head[0] != length or any(one < _SHORTEST_TEXT or one % 2 == 0 for one in texts):
        return None
    widths = (
        _BYTES_OF_NUMBER[first[0]],
        (texts[0] - _SHORTEST_TEXT) // 2,
        (texts[1] - _SHORTEST_TEXT) // 2,
        _BYTES_OF_NUMBER[last[0]],
    )
    body = _gathered(data, match.start(), length + sum(widths), size, page_of)[length:]
    if len(body) < sum(widths):
        return None
    columns, at = [], 0
    for width in widths:
        columns.append(body[at : at + width])
        at += width
    sequence, told = _number(first[0], columns[0]), _number(last[0], columns[3])
    if told != checksum(sequence, columns[1], columns[2]):
        return None
    return EntityRow(sequence, columns[1].decode(), columns[2].decode(), told)


def _gathered(data: bytes, at: int, length: int, size: int, page_of: _PageOf) -> bytes:
    """Return `length` bytes from there on; fewer if some are missing."""
    here = _in_this_page(length, size)
    if here == length:
        return data[at : at + length]
    parts, more = [data[at : at + here]], data[at + here : at + here + 4]
    for _ in range((length - here + size - 5) // (size - 4)):
        further = page_of(int.from_bytes(more))
        parts.append(further[4:])
        more = further[:4]
    return b"".join(parts)[:length]


def _in_this_page(length: int, size: int) -> int:
    """Number of bytes of a row that lie in the page where it begins."""
    most, least = size - 35, (size - 12) * 32 // 255 - 23
    here = length if length <= most else least + (length - least) % (size - 4)
    return here if here <= most else least


def _varint(data: bytes) -> int:
    value = 0
    for one in data:
        value = value << 7 | one & 0x7F
    return value


def _number(kind: int, data: bytes) -> int:
    return kind - 8 if kind >= 8 else int.from_bytes(data, signed=True)
