"""What is whole in a damaged file: every row that its checksum proves, wherever it lies.

Nothing else of the file is believed. A damaged page, or a bit of what says where things are, hides
rows from SQLite that are whole themselves. So rows are recognized by how SQLite writes them: the
sizes of the four columns, then the columns. A row that does not fit into its page goes on in pages
of its own, each of which begins with the number of the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from dispatcher.registration._sqlite.records import EntityRow, checksum

_USUAL_PAGE = 4096
_HEAD_OF_LOG, _HEAD_OF_FRAME = 32, 24
"""How many bytes come before the pages in a log of writes, and before each one."""

_NUMBER, _VARINT = rb"([\x01-\x06\x08\x09])", rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_SIZES = re.compile(rb"(?s)(?=([\x05-\x0d])" + _NUMBER + _VARINT + _VARINT + _NUMBER + rb")")
"""Before a row: how long this is; then the kind and size of each column."""
_BYTES_OF_NUMBER = (0, 1, 2, 3, 4, 6, 8, 0, 0, 0)
_SHORTEST_TEXT = 13

_PageOf = Callable[[int], bytes]


class _Pages(NamedTuple):
    main: list[bytes]
    logged: list[tuple[int, bytes]]
    """Numbers and pages in the log of writes, the oldest first."""

    def lookups(self) -> list[_PageOf]:
        """How to find a page by its number: as it is by now, as it was before."""
        newest = dict(self.logged)

        def of_main(number: int) -> bytes:
            return self.main[number - 1] if 0 < number <= len(self.main) else b""

        return [lambda number: newest.get(number) or of_main(number), of_main]


def rows_in(path: Path, log: Path) -> Iterator[EntityRow]:
    """Every row that is whole in a file, and in its log of writes; also those that are outdated.
    OSError if they cannot be read."""
    pages = _read(path, log)
    lookups = pages.lookups()
    for page in (*pages.main, *(page for _, page in pages.logged)):
        behind = 0
        for match in _SIZES.finditer(page):
            # What a row has in it may look like a row.
            if match.start() >= behind:
                found = (_row_at(page, match, page_of) for page_of in lookups)
                row = next((one for one in found if one is not None), None)
                if row is not None:
                    length = len(row.entity.encode()) + len(row.record.encode())
                    behind = match.start() + _in_this_page(length, len(page))
                    yield row


def _read(path: Path, log: Path) -> _Pages:
    data, logged = _bytes_of(path), _bytes_of(log)
    size = _page_size(data[16:18], 2) or _page_size(logged[8:12], 4) or _USUAL_PAGE
    main = [data[at : at + size] for at in range(0, len(data), size)]
    starts = range(_HEAD_OF_LOG, len(logged), _HEAD_OF_FRAME + size)
    return _Pages(
        main,
        [
            (
                int.from_bytes(logged[at : at + 4]),
                logged[at + _HEAD_OF_FRAME : at + _HEAD_OF_FRAME + size],
            )
            for at in starts
        ],
    )


def _bytes_of(path: Path) -> bytes:
    # OSError if the disk cannot read all of it: it may be able to the next time.
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _page_size(told: bytes, width: int) -> int:
    size = int.from_bytes(told) if len(told) == width else 0
    return size if size in (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536) else 0


def _row_at(page: bytes, match: re.Match[bytes], page_of: _PageOf) -> EntityRow | None:
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
    body = _gathered(page, match.start(), length + sum(widths), page_of)[length:]
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


def _gathered(page: bytes, at: int, length: int, page_of: _PageOf) -> bytes:
    """`length` bytes from there on; fewer if some are missing."""
    size = max(len(page), _USUAL_PAGE)
    here = _in_this_page(length, size)
    if here == length:
        return page[at : at + length]
    parts, more = [page[at : at + here]], page[at + here : at + here + 4]
    for _ in range((length - here + size - 5) // (size - 4)):
        further = page_of(int.from_bytes(more))
        parts.append(further[4:])
        more = further[:4]
    return b"".join(parts)[:length]


def _in_this_page(length: int, size: int) -> int:
    """How many bytes of a row lie in the page where it begins."""
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
