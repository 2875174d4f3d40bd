"""The options of `dispatcher limit show|set|delete`."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._commands.limit.ramp import Ramp, read_ramp
from dispatcher.cli._options.declaring import Command, CommandGroup, flag, option
from dispatcher.cli._options.families import OptionFamily
from dispatcher.cli._options.redis import LimitOptions, RedisOptions
from limiters._sharing.options import LimiterOptions
from limiters.leases._operator import TermsChange


@dataclass(frozen=True, kw_only=True)
class LimitListOptions(RedisOptions):
    """The options of `limit list`."""

    json: bool = flag("one line of JSON, for scripts")


@dataclass(frozen=True, kw_only=True)
class LimitShowOptions(LimitOptions):
    """The options of `limit show`."""

    json: bool = flag("one line of JSON, for scripts")


NEW = LimiterOptions
"""The class whose defaults are those of a new limit."""

CHANGE = OptionFamily(
    TermsChange,
    variables={"lease_time": "DISPATCHER_LIMIT_LEASE_TIME"},  # a worker has one for its messages
    capacity="shared_capacity",
)


@dataclass(frozen=True, kw_only=True)
@CHANGE.added
class LimitSetOptions(LimitOptions):
    """The options of `limit set`."""

    ramp: Ramp | None = option(
        "raise the capacity by no more than an amount over a duration, or within a duration; by "
        "dimension as in tokens=1000/60s",
        "AMOUNT/DURATION",
        read=read_ramp,
        by_dimension=True,
    )
    start_over: bool = flag(
        "give it other dimensions than it has, all of --shared-capacity: it starts over, and "
        "instances that were made with others are refused. It asks first"
    )
    yes: bool = flag("do not ask")


@dataclass(frozen=True, kw_only=True)
class LimitDeleteOptions(LimitOptions):
    """The options of `limit delete`."""

    old_format: bool = flag(
        "delete only the keys that an older version of this library has stored of it: "
        "nothing is granted while they exist"
    )
    yes: bool = flag("do not ask")


LIMIT = CommandGroup(
    description="The limit that all instances with the same name share, kept in Redis.",
    epilog="example:\n  dispatcher limit show orders --redis redis://db:6379/0",
    title="actions",
    metavar="ACTION",
    commands={
        "list": Command(
            help="all limits under the prefix",
            description="Lists the limits under the prefix, with their capacity and what of it is "
            "held.",
            epilog="example:\n  dispatcher limit list --json | jq -r '.[].name'",
            options=LimitListOptions,
            run="dispatcher.cli._commands.limit.list:run",
        ),
        "show": Command(
            help="its terms, and whether it grants anything",
            description="Shows the terms of a limit, how many partitions are free, and whether "
            "anything new is granted.",
            epilog="example:\n  dispatcher limit show orders --redis redis://db:6379/0\n  "
            "dispatcher limit show orders --json | jq .capacity_in_force",
            options=LimitShowOptions,
            run="dispatcher.cli._commands.limit.command:show_limit",
        ),
        "set": Command(
            help="create it, or change its terms for all instances",
            description="Creates a limit, or changes the given terms of an existing one. All "
            "instances follow within two\nsync intervals (a second, as a rule), idle ones with "
            "their next call. Another capacity or factor\nneeds no wait. Another period or lease "
            "time waits until the leases that are out have ended:\nmeanwhile instances keep what "
            "they hold, and nothing new is granted.\n\nA new limit needs --shared-capacity. By "
            f"default its factor is {NEW.factor:g}, its period {NEW.period:g} s and its lease\n"
            f"time {NEW.lease_time:g} s.\n\nSeveral dimensions are written with commas: a rate as "
            "AMOUNT/DURATION, its shorter windows\nbehind a +, a number of calls in flight as "
            "20slots. Of a limit that exists, give what changes:\ntokens=120000, or "
            "tokens=120000/30s with another window.",
            epilog="examples: 1,000 more every minute; other leases; several dimensions, and a "
            "change of one:\n"
            "  dispatcher limit set orders --shared-capacity 40000 --ramp 1000/60\n"
            "  dispatcher limit set orders --lease-time 10 --period 60\n"
            "  dispatcher limit set llm --shared-capacity \\\n"
            "      requests=600/60s+10/1s,tokens=90000/60s,calls=20slots\n"
            "  dispatcher limit set llm --shared-capacity tokens=120000 --ramp 30m",
            options=LimitSetOptions,
            run="dispatcher.cli._commands.limit.set:run",
        ),
        "delete": Command(
            help="delete it",
            description="Deletes a limit and all leases. Instances that still run make it "
            "again with their\nown terms: stop them first.",
            epilog="examples:\n  dispatcher limit delete orders --yes\n  "
            "dispatcher limit delete orders --old-format",
            options=LimitDeleteOptions,
            run="dispatcher.cli._commands.limit.command:delete_limit",
        ),
    },
)
