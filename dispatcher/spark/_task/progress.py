"""The progress of a back-fill: tasks add it up in Redis, and the driver shows it on stderr."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, TextIO

from dispatcher.spark._ledger.claims import TIMEOUT, Place
from dispatcher.spark._task.sums import Sums
from limiters._redis.acl import Needs
from limiters._redis.client import RedisConnection

EVERY = 0.5
"""Seconds between two reports of a task, and two displays of the driver."""
SELDOM = 10.0
"""Seconds between two displays where there is no terminal."""
KEPT_MS = 86_400_000

NEEDS = Needs("+del +get +incrbyfloat +pexpire")


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter in Redis of the rows that tasks have sent. Plain values, which can be sent to
    executors."""

    place: Place
    name: str

    @classmethod
    def new(cls, url: str, prefix: str, query: str) -> Counter:
        """Return a counter with a key of its own."""
        return cls(Place(url, prefix, query), uuid.uuid4().hex)

    @property
    def key(self) -> str:
        """The key in Redis."""
        return self.place.key("progress", self.name)


class _Every:
    """Calls `_look` periodically on a thread of its own, and a last time when the block ends."""

    def __init__(self, name: str) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> _Every:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            self._look(last=False)
        self._look(last=True)

    def _look(self, *, last: bool) -> None:
        raise NotImplementedError


class Reporting(_Every):
    """Adds the rows that a task has sent to the counter. Errors are ignored, since the counter is
    only shown: the next report includes what is missing."""

    def __init__(self, counter: Counter, sums: Sums) -> None:
        super().__init__("dispatcher-progress")
        self._key = counter.key
        self._sums = sums
        self._reported = 0.0
        self._connection = RedisConnection(counter.place.url, TIMEOUT)

    def _look(self, *, last: bool) -> None:
        done = self._sums.done
        try:
            if done != self._reported:
                client = self._connection.client()
                client.incrbyfloat(self._key, done - self._reported)
                self._reported = done
                client.pexpire(self._key, KEPT_MS)
        except Exception:
            return
        finally:
            if last:
                self._connection.close()


class Showing(_Every):
    """Shows how many rows are sent."""

    def __init__(self, counter: Counter, total: int | None, out: TextIO | None = None) -> None:
        super().__init__("dispatcher-progress")
        self._key = counter.key
        self._total = total
        self._out = out or sys.stderr
        self._began = self._shown = time.monotonic()
        self._connection = RedisConnection(counter.place.url, TIMEOUT)

    def _look(self, *, last: bool) -> None:
        now = time.monotonic()
        live = self._out.isatty()
        if not last and not live and now - self._shown < SELDOM:
            return
        try:
            client: Any = self._connection.client()
            done = float(client.get(self._key) or 0)
            if last:
                client.delete(self._key)
        except Exception:
            return  # the micro-batch itself raises an error about Redis
        finally:
            if last:
                self._connection.close()
        self._shown = now
        text = line(done, self._total, now - self._began)
        self._out.write(f"\r\x1b[K{text}" if live else f"{text}\n")
        if live and last:
            self._out.write("\n")
        self._out.flush()


def line(done: float, total: int | None, elapsed: float) -> str:
    """Return the line that shows the progress.

    >>> line(500_000, 2_000_000, 60)
    '500,000 of 2,000,000 rows (25%), 8,333 a second, 3 min left'
    >>> line(1_000, None, 2)
    '1,000 rows, 500 a second'
    """
    rate = done / elapsed if elapsed > 0 else 0.0
    if total is None:
        return f"{done:,.0f} rows, {rate:,.0f} a second"
    share = done / total if total else 1.0
    left = f", {_span((total - done) / rate)} left" if rate and done < total else ""
    return f"{done:,.0f} of {total:,} rows ({share:.0%}), {rate:,.0f} a second{left}"


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"
