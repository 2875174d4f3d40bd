"""The options of `dispatcher leases`."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.declaring import Command, flag, option
from dispatcher.cli._options.redis import LimitOptions
from limiters._support.validation import seconds


@dataclass(frozen=True, kw_only=True)
class LeasesOptions(LimitOptions):
    """The limit, and how to show it."""

    json: bool = flag("a line of JSON, for scripts")
    dimension: str | None = option(
        "of several dimensions, show one alone, with all columns: its name, or that of a shorter "
        "window, as in requests/1s",
        "NAME",
    )
    watch: float | None = option(
        "show it repeatedly, at this interval, until Ctrl-C (exit code 130)",
        "SECONDS",
        check=seconds,
    )
    evict: str | None = option(
        "take everything from one instance and grant it nothing more: the beginning of its "
        "name, or host:process",
        "INSTANCE",
    )
    yes: bool = flag("evict without asking")


LEASES = Command(
    description="Shows how many partitions each instance holds and for how long, what it wants "
    "and spends in a\nperiod, its fair share in partitions, and how long ago its last request "
    "came. An instance that has\nnothing to do is forgotten after a lease and a period: "
    "it shows again when it has. One that stopped\ndisappears immediately.\n\n"
    "Of a limit of several dimensions, it shows what each instance holds of each of them;\n"
    "--dimension shows one with all columns.",
    epilog="examples:\n"
    "  dispatcher leases orders --watch 1\n"
    "  dispatcher leases llm --dimension requests/1s\n"
    "  dispatcher leases orders --json | jq '.instances[] | select(.spends > 0) | .label'\n"
    "  dispatcher leases orders --evict worker-7:4242 --yes",
    options=LeasesOptions,
    run="dispatcher.cli._commands.leases.command:run",
    exclusive=("watch", "evict"),
)
