"""Cost of a gate's files: registrations in SQLite, one by one and in bulk, and early logs.

Rates are of the wall clock, the disk included. What is compared is measured in turns, so that other
use of the disk affects both.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure
from dispatcher.registration import (
    EarlyMessageLog,
    MemoryEntityStore,
    Registration,
    RegistrationGate,
    SqliteEntityStore,
)

ONE_BY_ONE = 300
BULK = 20_000
FEW_LOGS = 1_000
MANY_LOGS = 100_000


def run() -> Iterator[Figure]:
    """Measure files in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:
        yield from _bulk(Path(directory))
        yield from _early_logs(Path(directory))


def _bulk(directory: Path) -> Iterator[Figure]:
    names = itertools.count()
    single, bulk = [], []
    with RegistrationGate(SqliteEntityStore(directory / "entities.db")) as gate:
        gate.register("plant")
        for _ in range(3):
            started = time.perf_counter()
            for number in itertools.islice(names, ONE_BY_ONE):
                gate.register(f"device/{number}", parent="plant", data={"id": number})
            single.append(ONE_BY_ONE / (time.perf_counter() - started))
            many = [
                Registration(f"device/{number}", "plant", {"id": number})
                for number in itertools.islice(names, BULK)
            ]
            started = time.perf_counter()
            gate.register_many(many)
            bulk.append(BULK / (time.perf_counter() - started))
    note = f"{max(bulk):,.0f} a second against {max(single):,.0f}; one transaction of {BULK:,}"
    name = "register_many in SQLite, against one by one"
    yield Figure(name, max(bulk) / max(single), "x", at_least=20, note=note)


def _early_logs(directory: Path) -> Iterator[Figure]:
    """Compare many logs in one gate with a few in each of several gates, each in a directory of its
    own. The first message of an entity creates its log; the second is appended."""
    few: list[float] = []
    many: list[float] = []
    large = _Logs(directory / "many", MANY_LOGS)
    for start in range(0, MANY_LOGS, FEW_LOGS):
        many.append(large.offer(start))
        small = _Logs(directory / f"few-{start}", FEW_LOGS)
        few.append(small.offer(start))
        small.close()
    # When there are many: those of the second half.
    half = len(many) // 2
    rate, plain = (FEW_LOGS * 2 / statistics.median(one[half:]) for one in (many, few))
    note = f"{rate:,.0f} messages a second against {plain:,.0f}"
    name = f"early logs on disk: {MANY_LOGS:,} against {FEW_LOGS:,}"
    yield Figure(name, rate / plain, "x", at_least=0.75, note=note)
    large.close()


class _Logs:
    def __init__(self, directory: Path, logs: int) -> None:
        self._directory = directory
        log = EarlyMessageLog(directory, max_bytes=10**9, max_age=3_600)
        self._gate = RegistrationGate(
            MemoryEntityStore(), early_log=log, pending_entities=logs, telemetry_limit=2 * logs
        )

    def offer(self, first: int) -> float:
        """Offer two messages to each of some new logs. Return seconds."""
        started = time.perf_counter()
        for turn in range(2):
            for number in range(first, first + FEW_LOGS):
                self._gate.offer(f"device/{number}", turn)
        return time.perf_counter() - started

    def close(self) -> None:
        self._gate.close()
        shutil.rmtree(self._directory)
