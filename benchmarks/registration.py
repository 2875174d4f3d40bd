"""Cost of a gate: passing, releasing, loading its entities, and memory of what waits.

Passing is compared with a dict look-up and an append, both behind a call of the same signature, as
a gate cannot be called without one; and, for many messages, with the bare loop. Times are of the
processor, taken back to back, the best of several. Disks and Redis are measured in
registration_disk and registration_redis.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import registration_disk, registration_redis
from benchmarks.figures import Figure
from dispatcher.registration import MemoryEntityStore, RegistrationGate, SqliteEntityStore
from dispatcher.registration._model.written import record_of

ENTITIES = 100_000
MESSAGES = 10
PASSING = 500_000


def run() -> Iterator[Figure]:
    """Measure a gate in memory."""
    yield from _passing()
    yield from _releasing()
    yield from _loading()
    each = _memory(1)
    yield Figure("a pending entity with one message, beyond names and messages", each, "bytes")
    each = _memory(MESSAGES)
    yield Figure("a pending entity with ten messages", each, "bytes")
    yield from registration_disk.run()
    yield from registration_redis.run()


def _passing() -> Iterator[Figure]:
    gate = RegistrationGate(MemoryEntityStore())
    names = [f"device/{number}" for number in range(10_000)]
    for name in names:
        gate.register(name)
    known = dict.fromkeys(names, "known")
    pairs = [(names[number * 7919 % len(names)], number) for number in range(PASSING)]
    out: list[Any] = []

    class Plain:
        def offer(self, entity: str, message: Any, *, metadata: bool = False) -> None:
            if known.get(entity) is not None:
                out.append(message)

    def through(offer: Callable[[str, int], object]) -> Callable[[], None]:
        def go() -> None:
            for entity, message in pairs:
                offer(entity, message)

        return go

    def bare() -> None:
        for entity, message in pairs:
            if known.get(entity) is not None:
                out.append(message)

    def many() -> None:
        for start in range(0, PASSING, 1_000):
            gate.offer_many(pairs[start : start + 1_000])

    called, passed, inline, at_once = _best(
        through(Plain().offer), through(gate.offer), bare, many, after=out.clear
    )
    name = "passing a registered entity, against the same behind a call"
    note = f"{passed / PASSING * 1e9:.0f} ns a message; {inline / passed:.2f} of the bare loop"
    yield Figure(name, called / passed, "of a look-up", at_least=0.3, note=note)
    name = "passing a thousand in one call, against the bare loop"
    note = f"{at_once / PASSING * 1e9:.0f} ns a message"
    yield Figure(name, inline / at_once, "of a look-up", at_least=0.3, note=note)


def _releasing() -> Iterator[Figure]:
    few, many = _release(ENTITIES // 10), _release(ENTITIES)
    name = f"time per message released: {ENTITIES:,} pending entities against {ENTITIES // 10:,}"
    note = f"{many * 1e9:.0f} ns a message, {MESSAGES} each"
    yield Figure(name, many / few, "x", at_most=2, note=note)
    few, many = _release_family(ENTITIES // 10), _release_family(ENTITIES)
    name = "the same, all set free by one registration"
    yield Figure(name, many / few, "x", at_most=2, note=f"{many * 1e9:.0f} ns a message")


def _filled(entities: int, messages: int, parent: str | None = None) -> RegistrationGate:
    gate = RegistrationGate(
        MemoryEntityStore(),
        pending_entities=entities,
        telemetry_limit=entities * messages,
        telemetry_per_entity=messages,
    )
    for number in range(entities):
        name = f"device/{number}"
        if parent is not None:
            gate.register(name, parent=parent)
        for _ in range(messages):
            gate.offer(name, number)
    return gate


def _release(entities: int) -> float:
    """Return seconds for a message."""
    best = float("inf")
    for _ in range(3):
        gate = _filled(entities, MESSAGES)
        names = [f"device/{number}" for number in range(entities)]
        with _NoCollector():
            started = time.process_time()
            released = sum(len(gate.register(name)[0].messages) for name in names)
            best = min(best, time.process_time() - started)
        assert released == entities * MESSAGES
    return best / (entities * MESSAGES)


def _release_family(entities: int) -> float:
    best = float("inf")
    for _ in range(3):
        gate = _filled(entities, MESSAGES, parent="top")
        with _NoCollector():
            started = time.process_time()
            released = gate.register("top")
            best = min(best, time.process_time() - started)
        assert len(released) == entities + 1
    return best / (entities * MESSAGES)


def _loading() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "entities.db"
        store = SqliteEntityStore(path)
        store.load()
        store.save(
            {
                f"device/plant{number % 100}/sensor{number}": record_of(
                    "device/main",
                    {
                        "@type": "child-device",
                        "name": f"sensor {number}",
                        "@id": f"main:device:sensor{number}",
                    },
                )
                for number in range(ENTITIES)
            }
        )
        store.close()
        reading, loading = (
            statistics.median(_in_a_new_process(path, what) for _ in range(7)) for what in _WORK
        )
        yield Figure(
            f"loading {ENTITIES:,} entities from SQLite, against reading its bytes",
            loading / reading,
            "x",
            at_most=20,
            note=f"{loading * 1e3:.0f} ms for {path.stat().st_size / 1e6:.0f} MB, each in a new "
            "process, as after a restart",
        )
        again = _in_a_new_process(path, f"{_WORK[0]};" * 6)
        name = "the same, against reading into memory that is warm"
        yield Figure(name, loading / again, "x", note="at the sixth time")


_WORK = ("kept = path.read_bytes()", "kept = store.load()")


def _in_a_new_process(path: Path, work: str) -> float:
    """Return processor seconds for the last statement of `work`."""
    *before, last = work.rstrip(";").split(";")
    program = f"""
import time
from pathlib import Path
from dispatcher.registration import SqliteEntityStore
path = Path({str(path)!r})
store = SqliteEntityStore(path)
{chr(10).join(before)}
started = time.process_time()
{last}
print(time.process_time() - started)
store.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _memory(messages: int) -> float:
    entities = 20_000
    names = [f"device/{number}" for number in range(entities)]
    gate = RegistrationGate(MemoryEntityStore(), pending_entities=entities, telemetry_limit=10**6)
    body = object()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for name in names:
        for _ in range(messages):
            gate.offer(name, body)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / entities


class _NoCollector:
    """Without the garbage collector, whose time grows with all objects there are."""

    def __enter__(self) -> None:
        gc.collect()
        gc.disable()

    def __exit__(self, *error: object) -> None:
        gc.enable()


def _best(*calls: Callable[[], object], after: Callable[[], object]) -> list[float]:
    """Return the least time of each, of five, in turns."""
    best = [float("inf")] * len(calls)
    for _ in range(5):
        for at, call in enumerate(calls):
            with _NoCollector():
                started = time.process_time()
                call()
                best[at] = min(best[at], time.process_time() - started)
            after()
    return best
