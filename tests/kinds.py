"""The kind of a test: what it needs, by its folder and by what its module imports.

A test that starts something its kind does not allow fails: the markers are true, and the tests of
`make fast` need neither Java nor Redis.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from types import ModuleType
from typing import Any
from unittest.mock import patch

MARKERS = {
    "redis": "starts a Redis or Valkey server",
    "spark": "starts Spark, which needs Java",
    "process": "starts processes of its own",
    "wallclock": "waits for real time to pass",
}

FOLDERS = {
    "tests/unit/": frozenset[str](),
    "tests/simulation/": frozenset[str](),
    "tests/spark/": frozenset(MARKERS),
    "tests/acceptance/": frozenset({"redis", "process", "wallclock"}),
    "": frozenset({"redis", "wallclock"}),  # integration, and the programs in docstrings
}
"""The first one that a test lies in counts."""

STARTS_PROCESSES = (
    "dispatcher.worker._process.supervisor",
    "subprocess",
    "tests.commands.outside",
    "tests.integration.exporter.exporting",
    "tests.processes",
    "tests.servers.counting_api",
    "tests.servers.tls",  # openssl
    "tests.terminals",
)
"""Modules that start processes: a test module that imports one of these needs the marker,"""

STARTING_FIXTURES = frozenset({"tls_redis"})
"""so does a test that uses one of these fixtures."""


def markers(
    place: str, module: ModuleType | None = None, fixtures: Collection[str] = ()
) -> frozenset[str]:
    """The markers of the test with the node id `place`.

    >>> sorted(markers("tests/acceptance/test_spark_faults.py::test_a"))
    ['process', 'redis', 'spark', 'wallclock']
    >>> sorted(markers("tests/unit/spark/test_parcels.py::test_a"))
    []
    """
    found = next(kinds for folder, kinds in FOLDERS.items() if place.startswith(folder))
    if place.startswith("tests/acceptance/") and "spark" in place.lower():
        found |= {"spark"}
    if not STARTING_FIXTURES.isdisjoint(fixtures) or (module and _starts_processes(module)):
        found |= {"process"}
    return found


@cache  # of a module, for all its tests
def _starts_processes(module: ModuleType) -> bool:
    return any(name.startswith(STARTS_PROCESSES) for name in map(_full_name, vars(module).values()))


def _full_name(thing: object) -> str:
    if isinstance(thing, ModuleType):
        return thing.__name__
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__name__', '')}"


POLL = 0.01
"""A sleep up to this long only looks again for what another thread does."""


class UnmarkedError(AssertionError):
    """A test did something that its kind does not allow."""

    def __init__(self, marker: str) -> None:
        super().__init__(
            f"this test {MARKERS[marker]}, but has no marker {marker!r}; "
            "move it to the folder of its kind (tests/kinds.py)"
        )


def needed_for(command: object) -> str:
    """The marker that a test needs to run a command.

    >>> needed_for(["/usr/bin/redis-server", "redis.conf"]), needed_for("ls")
    ('redis', 'process')
    """
    words = " ".join(map(str, command if isinstance(command, list | tuple) else [command])).split()
    if any(word.endswith(("redis-server", "valkey-server")) for word in words):
        return "redis"
    return "spark" if words[0].endswith(("spark-submit", "java")) else "process"


@contextmanager
def only(allowed: frozenset[str]) -> Iterator[None]:
    """Refuse, until the block ends, what a test with these markers may not do.

    A thread that is left over from an earlier test may go on, as those of Spark's client do.
    Only the main thread may not sleep: a test that does not wait for it loses no time by another.
    """
    main = threading.main_thread()
    earlier = {thread for thread in threading.enumerate() if thread is not main}

    def refuse(marker: str) -> None:
        if marker not in allowed and threading.current_thread() not in earlier:
            raise UnmarkedError(marker)

    start, sleep = subprocess.Popen.__init__, time.sleep

    @wraps(start)
    def guarded_start(self: Any, args: Any, *more: Any, **options: Any) -> None:
        refuse(needed_for(args))
        start(self, args, *more, **options)

    @wraps(sleep)
    def guarded_sleep(seconds: float) -> None:
        if seconds > POLL and threading.current_thread() is main:
            refuse("wallclock")
        sleep(seconds)

    guarded: list[tuple[object, str, Callable[..., None]]] = [
        (subprocess.Popen, "__init__", guarded_start)
    ]
    if "wallclock" not in allowed:
        guarded.append((time, "sleep", guarded_sleep))
    patches = [patch.object(*one) for one in guarded]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in reversed(patches):
            one.stop()
