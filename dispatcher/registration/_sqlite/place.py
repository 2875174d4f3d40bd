"""Where a file of entities lies, and the files beside it: one takes the place of another at once.

`<path>.lock` says that a process has it. `<path>.new` is being written, and is worth nothing yet;
`<path>.next` is complete, and takes the place of `<path>` whatever happens. `<path>.damaged-1` and
so on are files that were damaged, as they were found. `-wal` behind a name is its log of writes.
"""

from __future__ import annotations

import itertools
import os
import shutil
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dispatcher.registration._file_lock import lock
from limiters._support.forking import begin_in_child


class StorePlace:
    """The place of a store, held until it is closed. OSError if it cannot be, BlockingIOError if
    somebody else has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = _beside(path, "-wal")
        self._lock = os.open(_beside(path, ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
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
        return self.path.exists() or self.log.exists()

    def put(self, write: Callable[[Path], object]) -> None:
        """Has a new file written, and puts it in the place of the old one. Killed at any moment,
        it leaves the old one or the new one. OSError or sqlite3.Error if it cannot be written;
        then the old one is as it was."""
        new = _beside(self.path, ".new")
        try:
            os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
            os.chmod(new, 0o600)
            write(new)
            _sync(new)
        except BaseException:
            with suppress(OSError):
                os.unlink(new)
            raise
        os.replace(new, _beside(self.path, ".next"))
        _sync(self.path.parent)
        self._finish()

    def keep(self) -> Path:
        """Keeps the file that is there under another name as well; that name."""
        for number in itertools.count(1):
            aside = _beside(self.path, f".damaged-{number}")
            if _is_free_for(self.path, aside) and _is_free_for(self.log, _beside(aside, "-wal")):
                break
        for one, other in ((self.path, aside), (self.log, _beside(aside, "-wal"))):
            if one.exists() and not other.exists():
                os.chmod(one, 0o600)
                try:
                    os.link(one, other)
                except OSError:  # not on every file system
                    shutil.copy2(one, other)
                    _sync(other)
        _sync(self.path.parent)
        return aside

    def close(self) -> None:
        """Leaves the place to others."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            self.close()

    def _finish(self) -> None:
        """Ends what a process that was killed had begun."""
        with suppress(FileNotFoundError):
            os.unlink(_beside(self.path, ".new"))
        following = _beside(self.path, ".next")
        if following.exists():
            # The log of writes first: it would be taken for one of the new file.
            for ending in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(_beside(self.path, ending))
            os.replace(following, self.path)
            _sync(self.path.parent)


_held: weakref.WeakSet[StorePlace] = weakref.WeakSet()


def _let_go_in_child() -> None:
    # A lock is of all processes that have it open: a child would keep it when its parent is gone.
    for place in tuple(_held):
        place.close()


begin_in_child(_let_go_in_child)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}{ending}")


def _is_free_for(path: Path, aside: Path) -> bool:
    """Whether `aside` may be its other name: it is none yet, or is that already, since an earlier
    process was killed or had no room for what comes next."""
    return not aside.exists() or (path.exists() and _is_same(path, aside))


def _is_same(path: Path, aside: Path) -> bool:
    return path.samefile(aside) or path.read_bytes() == aside.read_bytes()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
