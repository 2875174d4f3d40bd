"""Where a file of entities lies, and the files beside it: one takes the place of another at once.

`<path>.lock` says that a process has it. `<path>.new` is being written, and is worth nothing yet;
`<path>.next-2` is complete, and takes the place of `<path>` whatever happens. The file that was
damaged is then `<path>.damaged-2`, as it was found; with the number 0, the old one is deleted.
`-wal` behind a name is its log of writes.

No file has two names at any time. A file that is opened by another name is opened without its log
of writes, or with one that is out of date; SQLite would write that into the file in use.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dispatcher.registration._file_lock import lock
from dispatcher.registration.errors import EntityStoreError
from limiters._support.forking import begin_in_child


class StorePlace:
    """The place of a store, held until it is closed. OSError if it cannot be, BlockingIOError if
    somebody else has it, EntityStoreError if something else than a file is there."""

    def __init__(self, path: Path) -> None:
        # SQLite follows links too: what is beside the file is beside the one that they lead to.
        self.path = Path(os.path.realpath(path))
        self.log = _beside(self.path, "-wal")
        self._new = _beside(self.path, ".new")
        self._lock = -1
        found = _found(self.path)
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise EntityStoreError(f"{path} is no regular file; give the path of a file")
        self._lock = os.open(_beside(self.path, ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        _held.add(self)
        try:
            lock(self._lock)
            self._finish()
        except BaseException:
            self.close()
            raise

    @property
    def is_taken(self) -> bool:
        """Whether anything is there, or was."""
        return bool(self._names())

    @property
    def has_another_name(self) -> bool:
        """Whether a file that is there is also elsewhere, by a hard link."""
        return any(one.st_nlink > 1 for one in self._names())

    def free_number(self) -> int:
        """The number that a damaged file can be kept with."""
        return next(
            number
            for number in itertools.count(1)
            if not any(_found(_beside(self.kept_as(number), ending)) for ending in ("", "-wal"))
        )

    def kept_as(self, number: int) -> Path:
        """The name that a damaged file is kept with."""
        return _beside(self.path, f".damaged-{number}")

    def write(self, fill: Callable[[Path], object]) -> None:
        """Has a new file written. OSError or sqlite3.Error if it cannot be."""
        try:
            os.close(os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
            os.chmod(self._new, 0o600)
            fill(self._new)
            _sync(self._new)
        except BaseException:
            with suppress(OSError):
                os.unlink(self._new)
            raise

    def replace(self, number: int = 0) -> None:
        """Puts the new file in the place of the old one, which is kept with a `number` or deleted.
        Killed at any moment, it leaves the old one or the new one."""
        for one in (self.path, self.log) if number else ():
            with suppress(FileNotFoundError):
                os.chmod(one, 0o600)
        os.replace(self._new, _beside(self.path, f".next-{number}"))
        _sync(self.path.parent)
        self._finish()

    def close(self) -> None:
        """Leaves the place to others."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            self.close()

    def _names(self) -> list[os.stat_result]:
        found = (_found(self.path), _found(self.log))
        return [one for one in found if one is not None]

    def _finish(self) -> None:
        """Ends what a process that was killed had begun."""
        with suppress(FileNotFoundError):
            os.unlink(self._new)
        complete = re.compile(rf"{re.escape(self.path.name)}\.next-(\d+)")
        for name in os.listdir(self.path.parent):
            if match := complete.fullmatch(name):
                self._take_place(self.path.with_name(name), int(match[1]))

    def _take_place(self, complete: Path, number: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(_beside(self.path, "-shm"))
        # The log of writes first: it would be taken for one of the new file.
        for ending in ("-wal", ""):
            old = _beside(self.path, ending)
            with suppress(FileNotFoundError):
                if number:
                    os.rename(old, _beside(self.kept_as(number), ending))
                else:
                    os.unlink(old)
        _sync(self.path.parent)
        os.replace(complete, self.path)
        _sync(self.path.parent)


_held: weakref.WeakSet[StorePlace] = weakref.WeakSet()


def _let_go_in_child() -> None:
    # A lock is of all processes that have it open: a child would keep it when its parent is gone.
    for place in tuple(_held):
        place.close()


begin_in_child(_let_go_in_child)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}{ending}")


def _found(path: Path) -> os.stat_result | None:
    """None if nothing is there. Path.exists() says so, too, if the system cannot look."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
