"""A damaged file of entities, with or without a log of writes: it is opened, or refused with
EntityStoreError; if it is opened, every record in use is one that was written."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from dispatcher.registration import SqliteEntityStore
from dispatcher.registration.errors import EntityStoreError
from tests.fuzz.inputs import Input, of_blob, scratch

RECORDS = {f"meter {number}": f'["house",{number}]' for number in range(40)}
RECORDS["long"] = f'[null,"{"x" * 9_000}"]'
REMOVED = "meter 7"


@functools.cache
def whole(with_log: bool) -> tuple[bytes, bytes]:
    """Return the file and its log of writes."""
    with scratch() as folder:
        path = Path(folder) / "a.db"
        with closing(SqliteEntityStore(path)) as store:
            store.load()
            store.save(RECORDS, [])
            store.save({"meter 3": '["house",3]'}, [REMOVED])
            if with_log:
                return path.read_bytes(), path.with_name("a.db-wal").read_bytes()
        return path.read_bytes(), b""


def check(data: bytes) -> None:
    given = Input(data)
    file, log = (bytearray(it) for it in whole(given.byte() % 2 == 1))
    changed = set()
    while given.has_more:
        is_of_log = bool(given.byte() % 2 and log)
        part = log if is_of_log else file
        at = int.from_bytes(given.take(4), "little") % (len(part) + 1)
        length, piece = int.from_bytes(given.take(2), "little"), given.blob()
        before = bytes(part)
        part[at : at + length] = piece
        if before != part:
            changed.add("log" if is_of_log else "file")
    with scratch() as folder:
        path = Path(folder) / "a.db"
        path.write_bytes(file)
        if log:
            path.with_name("a.db-wal").write_bytes(log)
        _judge(path, changed)


def _judge(path: Path, changed: set[str]) -> None:
    logger = logging.getLogger("dispatcher.registration")
    logger.disabled = True
    try:
        with closing(SqliteEntityStore(path)) as store:
            records, reports = store.load()
        with closing(SqliteEntityStore(path)) as store:
            again, none = store.load()
    except EntityStoreError:
        assert changed
        return
    finally:
        logger.disabled = False
    assert records == again
    assert none == []
    known = RECORDS.items()
    assert records.items() <= known
    if not changed:
        assert records == {name: text for name, text in known if name != REMOVED}
        assert reports == []
    if "log" not in changed:  # its end may be missing: then the last transactions never took place
        lost = RECORDS.keys() - {REMOVED} - records.keys()
        assert reports or not lost


def seeds() -> Iterator[bytes]:
    yield b"\0"
    yield b"\1"
    yield b"\0\0" + (3_000).to_bytes(4, "little") + (1).to_bytes(2, "little") + of_blob(b"\xff")
    yield b"\1\1" + (40).to_bytes(4, "little") + (9_000).to_bytes(2, "little") + of_blob(b"")
    yield b"\0\0" + (0).to_bytes(4, "little") + (100).to_bytes(2, "little") + of_blob(b"\0" * 100)
