"""The path of a file of entities, and the files next to it, so that a new file replaces the old one
atomically.

`<path>.lock` is locked by the process that uses the store. `<path>.new` is being written, and has
no value yet; `<path>.next-2` is complete, and will replace `<path>` in any case. The damaged file
is then kept as `<path>.damaged-2`; with the number 0, the old one is deleted. `-wal` after a name
is its write-ahead log.

No file has two names at any time. A file that is opened by another name is opened without its
write-ahead log, or with an outdated one, which SQLite would write into the file in use.
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
    """The path of a store, locked until it is closed. OSError if it cannot be locked,
    BlockingIOError if another process uses it, EntityStoreError if it is not a regular file."""

    def __init__(self, path: Path) -> None:
        # SQLite follows links too: the files next to a store are next to the file that they lead
        # to.
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
        """Whether a file exists, or existed."""
        return bool(self._names())

    @property
    def has_another_name(self) -> bool:
        """Whether the file also has another name, by a hard link."""
        return any(one.st_nlink > 1 for one in self._names())

    def free_number(self) -> int:
        """A number with which a damaged file can be kept."""
        return next(
            number
            for number in itertools.count(1)
            if not any(_found(_beside(self.kept_as(number), ending)) for ending in ("", "-wal"))
        )

    def kept_as(self, number: int) -> Path:
        """The name with which a damaged file is kept."""
        return _beside(self.path, f".damaged-{number}")

    def write(self, fill: Callable[[Path], object]) -> None:
        """Write a new file with `fill`. OSError or sqlite3.Error if that fails."""
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
        """Replace the old file by the new one. The old one is kept with a `number` or deleted. If
        the process is killed at any moment, either the old or the new file is there."""
        for one in (self.path, self.log) if number else ():
            with suppress(FileNotFoundError):
                os.chmod(one, 0o600)
        os.replace(self._new, _beside(self.path, f".next-{number}"))
        _sync(self.path.parent)
        self._finish()

    def close(self) -> None:
        """Unlock the path, for other processes."""
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
        """Complete what a killed process had begun."""
        with suppress(FileNotFoundError):
            os.unlink(self._new)
        complete = re.compile(rf"{re.escape(self.path.name)}\.next-(\d+)")
        for name in os.listdir(self.path.parent):
            if match := complete.fullmatch(name):
                self._take_place(self.path.with_name(name), int(match[1]))

    def _take_place(self, complete: Path, number: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(_beside(self.path, "-shm"))
        # The write-ahead log first: it would be taken for one of the new file.
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
    # A lock belongs to all processes that have it open: a child would keep it when its parent has
    # ended.
    for place in tuple(_held):
        place.close()


begin_in_child(_let_go_in_child)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}{ending}")


def _found(path: Path) -> os.stat_result | None:
    """Return None if there is nothing. Path.exists() does so, too, if the system cannot look."""
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
