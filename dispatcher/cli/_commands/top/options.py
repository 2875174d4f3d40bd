"""The options of `dispatcher top`."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.declaring import Command, argument, flag, option
from dispatcher.cli._options.redis import RedisOptions
from limiters._support.validation import seconds


@dataclass(frozen=True, kw_only=True)
class TopOptions(RedisOptions):
    """The limits and topics, and how to show them."""

    names: tuple[str, ...] = argument(
        "NAME", "these limits; without one, and without a topic: all of both", ()
    )
    topic: tuple[str, ...] = option("a topic; repeatable", "TOPIC", ())
    interval: float = option("refresh interval", "S", 1.0, check=seconds)
    once: bool = flag("show it once, as it is now")
    json: bool = flag("a line of JSON for each refresh")


TOP = Command(
    description="Shows limits and topics live, until q is typed, or Ctrl-C (exit code 130). A bar "
    "is what an\ninstance spends of what it holds, against the whole limit; the map shows "
    "which instance holds how much.\nShort: an instance that holds less than its fair share "
    "and wants more. Waits: one that waits for a\npermit. Starving: one that has been short for "
    "longer than a lease and a period, or has waited for a\npermit for that long and the time in "
    "which its fair share makes up the cost.",
    epilog="examples:\n  dispatcher top\n  dispatcher top orders --topic mails --topic reminders\n"
    "  dispatcher top orders --once\n"
    "  dispatcher top orders --json | jq -c '.limits.orders.spend'",
    options=TopOptions,
    run="dispatcher.cli._commands.top.command:run",
    interrupted="",
)
