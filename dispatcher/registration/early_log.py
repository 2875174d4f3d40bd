"""Early telemetry on disk: an append-only log for each entity that is not registered yet."""

from __future__ import annotations

import errno
import os
import re
import struct
import zlib
from collections import Counter, OrderedDict
from contextlib import suppress
from pathlib import Path

from dispatcher.registration._file_lock import lock
from dispatcher.registration._model.fullest import Fullest
from dispatcher.registration.errors import EntityStoreError
from limiters._support.validation import Seconds, count, optional_count, seconds
from limiters._support.validation import path as path_of

_FRAME = struct.Struct("<II")
"""Header of each message: its length, and its checksum."""

_MODE = 0o600
"""Files are readable for their owner alone."""

LOGS_PER_FOLDER = 1_000
"""Large directories are slow on many file systems. Logs go to folders in their order of creation,
not by a hash, since logs that are created together are close together on the disk."""

_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that are not about the file: it can be read when the system has handles, or memory."""

_WRITTEN_BY_A_LOG = re.compile(r"(\d+|[0-9a-f]{40})\.(early|new)")


class _Log:
    """The state of one file."""

    __slots__ = ("count", "number", "since", "size")

    def __init__(self, number: int, since: float) -> None:
        self.number = number
        self.since = since
        self.size = 0
        self.count = 0


class EarlyMessageLog:
    """Keeps early telemetry in `directory`, for one gate.

    * `max_bytes`: how much all logs may take together.
    * `max_age`: how long a log may stay after its first message, in seconds.
    * `max_bytes_per_entity`: how much one log may take; by default a tenth of all.

    A full log loses the older half of its messages. If all logs together are too large, the largest
    one does: a sender of much data displaces only its own. Logs that an earlier process has left
    are deleted at the start: they are caches, and the sender may send again. A directory belongs to
    one process at a time.

    Not thread-safe; the gate calls it under its lock.

    >>> import tempfile
    >>> from dispatcher.registration import EarlyMessageLog, MemoryEntityStore, RegistrationGate
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     log = EarlyMessageLog(directory, max_bytes=1_000_000, max_age=3600)
    ...     gate = RegistrationGate(MemoryEntityStore(), early_log=log)
    ...     _ = gate.offer("meter", 21.5)
    ...     gate.register("meter")[0].messages
    (21.5,)
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        max_bytes: int,
        max_age: Seconds,
        max_bytes_per_entity: int | None = None,
    ) -> None:
        self._max_bytes = count("max_bytes", max_bytes)
        self._max_age = seconds("max_age", max_age)
        each = optional_count("max_bytes_per_entity", max_bytes_per_entity)
        self._each = min(max_bytes, each or max(1, max_bytes // 10))
        self.directory = path_of("directory", directory, "a directory")
        """Where the logs are."""
        self._folders: Counter[Path] = Counter()
        """Number of logs in each folder."""
        self._logs: OrderedDict[str, _Log] = OrderedDict()
        """The logs, the oldest first."""
        self._total = 0
        self._numbers = 0
        self._largest = Fullest()
        self.displaced: list[tuple[str, int]] = []
        """Number of messages that each entity has lost for newer ones, until the caller clears it.
        """
        try:
            self._lock = self._locked()
        except BlockingIOError:
            raise EntityStoreError(
                f"directory must be one that no other gate uses; {str(directory)!r} is in use by "
                "another gate: give each its own"
            ) from None
        except OSError as error:
            raise EntityStoreError(
                f"directory must be one that can be written to, not {str(directory)!r}: {error}"
            ) from error

    @property
    def size(self) -> int:
        """Number of bytes that all logs take."""
        return self._total

    def append(self, entity: str, text: str, now: float) -> bool:
        """Add a message. Return False if it is too long for a log. OSError if it cannot be written:
        then the log is unchanged. In any case `displaced` has the entities that lost messages."""
        body = text.encode()
        frame = _FRAME.pack(len(body), zlib.crc32(body)) + body
        if len(frame) > self._each:
            return False
        self._make_room(entity, len(frame))
        log = self._logs.get(entity) or self._new_log(now)
        path = self._path(log)
        try:
            if not log.size:
                path.touch(_MODE)
            with path.open("r+b") as file:
                # Not at its end: that may have grown by something else.
                file.seek(log.size)
                file.write(frame)
        except OSError:
            # Perhaps with a part of the message at its end.
            if log.size:
                os.truncate(path, log.size)
            else:
                self._delete(log)
            raise
        self._logs[entity] = log
        self._change(entity, log, len(frame), 1)
        return True

    def read(self, entity: str) -> list[str]:
        """Return all undamaged messages, in order. OSError if the system has no file handles or no
        memory to read them."""
        bodies = self._read(self._logs[entity]) if entity in self._logs else []
        return [body.decode(errors="replace") for body in bodies]

    def take(self, entity: str) -> list[str]:
        """Return all undamaged messages, in order, and delete the log."""
        texts = self.read(entity)
        self.drop(entity)
        return texts

    def drop(self, entity: str) -> int:
        """Delete a log. Return the number of its messages."""
        log = self._logs.pop(entity, None)
        if log is None:
            return 0
        self._total -= log.size
        self._largest.put(entity, 0, 0)
        self._delete(log)
        return log.count

    def recount(self) -> dict[str, int]:
        """Rebuild the state from the files, and return the number of messages of each entity: an
        exception of a signal handler may have ended a call at any moment."""
        self.displaced = []
        self._largest = Fullest()
        self._total = 0
        self._folders = Counter(self._path(log).parent for log in self._logs.values())
        for entity, log in self._logs.items():
            bodies = self._read(log)
            log.size = sum(_FRAME.size + len(body) for body in bodies)
            log.count = len(bodies)
            self._change(entity, log, 0, 0)
            self._total += log.size
        return {entity: log.count for entity, log in self._logs.items()}

    def evict(self, now: float) -> list[tuple[str, int]]:
        """Delete logs that are too old. Return their entities, and the number of messages."""
        dropped = []
        while self._logs:
            entity = next(iter(self._logs))
            if now - self._logs[entity].since < self._max_age:
                break
            dropped.append((entity, self.drop(entity)))
        return dropped

    def close(self) -> None:
        """Delete all logs, and unlock the directory."""
        if self._lock >= 0:
            self._delete_what_is_left()
            os.close(self._lock)
            self._lock = -1

    # Private.

    def _locked(self) -> int:
        """Lock and empty the directory. Return the descriptor of the lock."""
        self.directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, _MODE)
        try:
            lock(descriptor)
            self._delete_what_is_left()
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _new_log(self, now: float) -> _Log:
        log = _Log(self._numbers + 1, now)
        folder = self._path(log).parent
        if not self._folders[folder]:
            folder.mkdir(exist_ok=True)
        self._numbers += 1
        self._folders[folder] += 1
        return log

    def _path(self, log: _Log) -> Path:
        # By its number: the name of an entity may be anything, also "../../etc".
        return self.directory / str(log.number // LOGS_PER_FOLDER) / f"{log.number}.early"

    def _delete(self, log: _Log) -> None:
        path = self._path(log)
        _delete(path)
        self._folders[path.parent] -= 1
        if not self._folders[path.parent]:
            del self._folders[path.parent]
            _delete_folder(path.parent)

    def _make_room(self, entity: str, size: int) -> None:
        while (log := self._logs.get(entity)) is not None and log.size + size > self._each:
            self._halve(entity)
        while self._total + size > self._max_bytes:
            self._halve(self._largest.victim(entity))

    def _halve(self, entity: str) -> None:
        log = self._logs[entity]
        bodies = self._read(log)
        kept = bodies[(len(bodies) + 1) // 2 :]
        lost = log.count - len(kept)
        if not kept:
            self.displaced.append((entity, self.drop(entity)))
            return
        frames = b"".join(_FRAME.pack(len(body), zlib.crc32(body)) + body for body in kept)
        path = self._path(log)
        beside = path.with_suffix(".new")
        try:
            # A new file, so that a full disk leaves the messages where they are ...
            beside.touch(_MODE)
            beside.write_bytes(frames)
            beside.replace(path)
        except OSError as error:
            # ... but then there is no other way to make room than to delete all of them.
            _delete(beside)
            if error.errno in _PASSING:
                raise
            self.displaced.append((entity, self.drop(entity)))
            return
        self.displaced.append((entity, lost))
        self._change(entity, log, len(frames) - log.size, -lost)

    def _change(self, entity: str, log: _Log, size: int, messages: int) -> None:
        log.size += size
        log.count += messages
        self._total += size
        self._largest.put(entity, log.size, log.number)

    def _read(self, log: _Log) -> list[bytes]:
        """Return the messages up to the first damaged one. After that, nothing shows where a
        message begins."""
        try:
            data = self._path(log).read_bytes()[: log.size]
        except OSError as error:
            if error.errno in _PASSING:
                raise
            return []
        bodies, at = [], 0
        while at + _FRAME.size <= len(data):
            length, checksum = _FRAME.unpack_from(data, at)
            body = data[at + _FRAME.size : at + _FRAME.size + length]
            # No message is empty; but eight zeros look like one, and end many damaged files.
            if not length or len(body) < length or zlib.crc32(body) != checksum:
                break
            bodies.append(body)
            at += _FRAME.size + length
        return bodies

    def _delete_what_is_left(self) -> None:
        folders = [path for path in self.directory.iterdir() if path.name.isdecimal()]
        for folder in (self.directory, *folders):
            with suppress(OSError):
                for path in list(folder.iterdir()):
                    if _WRITTEN_BY_A_LOG.fullmatch(path.name):
                        _delete(path)
        for folder in folders:
            _delete_folder(folder)
        self._logs.clear()
        self._folders.clear()
        self._total = 0


def _delete(path: Path) -> None:
    # It may be gone already, or its disk may fail: its content counts no more in any case.
    with suppress(OSError):
        path.unlink()


def _delete_folder(path: Path) -> None:
    # It may contain something that is not a log, or one that could not be deleted.
    with suppress(OSError):
        path.rmdir()
