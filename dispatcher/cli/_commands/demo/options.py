"""The options of `dispatcher demo`."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.declaring import Command, option
from limiters._support.options import CheckedOptions
from limiters._support.validation import amount


@dataclass(frozen=True, kw_only=True)
class DemoOptions(CheckedOptions):
    """How much the datastore allows, and how much there is to do."""

    capacity: float = option("request units a second", "C", 20_000.0, check=amount)
    seconds: float = option("how much work there is, at best", "S", 6.0)
    report: str | None = option(
        "write a page with charts for a browser; a picture if it ends with .svg", "FILE"
    )


DEMO = Command(
    description="Four processes write to a datastore that allows so many request units a second, "
    "in three\nways at the same time: a quarter of the limit each, each on its own, sharing the "
    "limit. Takes\nabout twice --seconds. Needs the extras cli, redis and embedded.",
    epilog="example:\n  dispatcher demo --capacity 5000 --seconds 10",
    options=DemoOptions,
    run="dispatcher.cli._commands.demo.command:run",
    interrupted="interrupted: everything was stopped\n",
)
