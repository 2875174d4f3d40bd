"""The options of `dispatcher timeline`, and of each of its actions."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.declaring import Command, CommandGroup, argument, flag, option
from dispatcher.cli._options.redis import RedisOptions, TopicOptions
from dispatcher.cli._text.moments import TIMES, When, seconds_of, when_of
from limiters._support.durations import EXAMPLES as DURATIONS

STATES = ("new", "lost", "waiting", "processing", "dead")
CHANGED_STATES = ("new", "lost", "waiting", "dead")
"""The states of messages that no consumer has leased."""

MOST_PEEKED = 500
MOST_BARS = 30

ALL_OF_THEM = "a line of JSON for each message, with all of its body"
OUTCOMES = "one line of JSON with the number of each outcome"
KIND = ("of_group", "start", "end")
"""Options that select messages without ids."""

NOTE = (
    "A message is changed in the name of the group that owns it, and only if it has not changed "
    "since it\nwas read. Leased messages are left alone. For more than one message it asks first."
)


@dataclass(frozen=True, kw_only=True)
class TopicListOptions(RedisOptions):
    """How to show the topics."""

    json: bool = flag("one line of JSON, durations in seconds, times in epoch milliseconds")


@dataclass(frozen=True, kw_only=True)
class StatsOptions(TopicOptions):
    """The topic, and how to show it."""

    json: bool = flag("one line of JSON, durations in seconds, times in epoch milliseconds")


@dataclass(frozen=True, kw_only=True)
class DeadOptions(TopicOptions):
    """The number of messages to show, and how."""

    limit: int = option(
        f"how many at most, up to {MOST_PEEKED}", "N", 20, variable="DISPATCHER_PEEK_LIMIT"
    )
    json: bool = flag(ALL_OF_THEM)


@dataclass(frozen=True, kw_only=True)
class PeekOptions(DeadOptions):
    """The messages to show."""

    state: tuple[str, ...] = option(
        "only those in this state; repeatable; default: all but dead",
        "",
        (),
        choices=STATES,
    )
    start: When | None = option(f"not before: {TIMES}", "TIME", flag="--from", read=when_of)
    end: When | None = option(
        "before; in the past it is --to=-1h", "TIME", flag="--to", read=when_of
    )
    id: tuple[str, ...] = option("these messages instead", "ID", ())


@dataclass(frozen=True, kw_only=True)
class HistogramOptions(TopicOptions):
    """The messages to count, and how to show them."""

    start: When | None = option(f"default: now; {TIMES}", "TIME", flag="--from", read=when_of)
    end: When | None = option("default: an hour after --from", "TIME", flag="--to", read=when_of)
    step: float | None = option(
        f"length of one bar: {DURATIONS}; default: up to {MOST_BARS} bars",
        "DURATION",
        read=seconds_of,
    )
    state: str | None = option("default: all but dead", "", choices=STATES)
    json: bool = flag("one line of JSON: epoch milliseconds and the number of each step")


@dataclass(frozen=True, kw_only=True)
class CreateOptions(TopicOptions):
    """The messages to create, their owner, and when they are due."""

    bodies: tuple[str, ...] = argument("BODY", "the bodies of the messages", ())
    group: str = option("the group that owns them", "GROUP", required=True)
    id: str | None = option("the id of a single BODY", "ID")
    body_json: bool = flag("each BODY is JSON, not text")
    at: When | None = option(f"when they are due: {TIMES}", "TIME", read=when_of)
    delay: float | None = option(f"or in how long: {DURATIONS}", "DURATION", read=seconds_of)
    create_topic: bool = flag("create the topic if there is none")
    buckets: int | None = option("of a new topic; default: 64; never changes", "N")
    dry_run: bool = flag("read all input, and create nothing")
    json: bool = flag(OUTCOMES)


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(TopicOptions):
    """The messages to change, and whether to ask."""

    ids: tuple[str, ...] = argument("ID", "these messages; - reads ids from stdin, one a line", ())
    of_group: str | None = option("all of this group", "GROUP")
    start: When | None = option(
        f"all from this time on: {TIMES}", "TIME", flag="--from", read=when_of
    )
    end: When | None = option(
        "all before; one in the past: --to=-1h", "TIME", flag="--to", read=when_of
    )
    dry_run: bool = flag("only show how many there are")
    yes: bool = flag("do not ask")
    json: bool = flag(OUTCOMES)

    @property
    def is_filtered(self) -> bool:
        """Whether the options select messages without ids."""
        return any((self.of_group, self.start, self.end))


@dataclass(frozen=True, kw_only=True)
class DeleteOptions(ChangeOptions):
    """The messages to delete."""

    all: bool = flag("all live messages without a lease")
    state: tuple[str, ...] = option("all in this state; repeatable", "", (), choices=CHANGED_STATES)

    @property
    def is_filtered(self) -> bool:
        """Whether the options select messages without ids."""
        return super().is_filtered or bool(self.state)


@dataclass(frozen=True, kw_only=True)
class DueOptions(ChangeOptions):
    """When messages are due after the change."""

    at: When | None = option(f"due then: {TIMES}", "TIME", read=when_of)
    delay: float | None = option(f"due so long from now: {DURATIONS}", "DURATION", read=seconds_of)


@dataclass(frozen=True, kw_only=True)
class MoveOptions(DueOptions, DeleteOptions):
    """The messages to move, and to when."""


@dataclass(frozen=True, kw_only=True)
class RequeueOptions(DueOptions):
    """The dead messages that are to live again, and when they are due."""


TIMELINE = CommandGroup(
    description="A topic of messages that are due at a time, kept in Redis.",
    epilog="example:\n  dispatcher timeline stats mails --redis redis://db:6379/0",
    title="actions",
    metavar="ACTION",
    commands={
        "list": Command(
            help="the topics that there are",
            description="Lists the topics under the prefix, with how many messages are due, and "
            "for how long.",
            epilog="example:\n  dispatcher timeline list --json | jq -r '.[].topic'",
            options=TopicListOptions,
            run="dispatcher.cli._commands.timeline.list:run",
        ),
        "stats": Command(
            help="how many messages in which state, and how late",
            description="Counts the messages of a topic by state. The numbers are exact, and cost "
            "the same however\nmany there are.",
            epilog="example:\n  dispatcher timeline stats mails\n"
            "  dispatcher timeline stats mails --json | jq .backlog_age",
            options=StatsOptions,
            run="dispatcher.cli._commands.timeline.stats:run",
        ),
        "peek": Command(
            help="the first messages by time, without leasing them",
            description="Shows the first messages by time: when they are due, their lease ends, "
            "or they died. Nothing is\nchanged. The body of a leased message is not shown.",
            epilog="examples:\n  dispatcher timeline peek mails --limit 5\n"
            "  dispatcher timeline peek mails --state lost --state new --to=-1h\n"
            "  dispatcher timeline peek mails --id welcome-7 --json | jq .body",
            options=PeekOptions,
            run="dispatcher.cli._commands.timeline.peek:peek",
        ),
        "dead": Command(
            help="the messages that were given up",
            description="Shows the messages that were given up and the reasons, the first that "
            "died first.\n`requeue` lets them live again, `delete --state dead` deletes them.",
            epilog="example:\n  dispatcher timeline dead mails --json | jq -r .id",
            options=DeadOptions,
            run="dispatcher.cli._commands.timeline.peek:dead",
        ),
        "histogram": Command(
            help="how many are due when, as bars",
            description="Counts by time: when messages are due, their lease ends, or they died. "
            "The numbers are exact, and\ncost the same however many there are.",
            epilog="examples:\n  dispatcher timeline histogram mails\n"
            "  dispatcher timeline histogram mails --from=-1d --to now --state dead --step 1h\n"
            "  dispatcher timeline histogram mails --to +10m --json | jq '.steps[][1]'",
            options=HistogramOptions,
            run="dispatcher.cli._commands.timeline.histogram:run",
        ),
        "create": Command(
            help="from arguments, or lines of JSON on stdin",
            description="Creates messages in the name of a group. Each BODY is a text; without "
            'any, each line of stdin is\nJSON: {"body": ..., "id": "a", "at": "+5m"}, or with '
            '"delay". A message whose id exists\nis not changed, so it is safe to '
            "repeat the command.",
            epilog="examples:\n"
            "  dispatcher timeline create mails --group signup --delay 10m hello\n"
            "  dispatcher timeline create mails --group signup < messages.jsonl\n"
            '  echo \'{"body": {"user": 7}, "id": "welcome-7"}\' | '
            "dispatcher timeline create mails --group signup",
            options=CreateOptions,
            run="dispatcher.cli._commands.timeline.create:run",
            exclusive=("at", "delay"),
        ),
        "move": Command(
            help="to another time",
            description=f"Moves messages to another time.\n{NOTE}",
            epilog="examples:\n  dispatcher timeline move mails welcome-7 --delay 10m\n"
            "  dispatcher timeline move mails --state new --at 2026-05-01T08:00 --dry-run",
            options=MoveOptions,
            run="dispatcher.cli._commands.timeline.changes:move",
            exclusive=("at", "delay"),
            needs_one=True,
            replaced={"ids": (*KIND, "all", "state")},
        ),
        "delete": Command(
            help="for good",
            description=f"Deletes messages for good.\n{NOTE}",
            epilog="examples:\n  dispatcher timeline delete mails welcome-7 welcome-8\n"
            "  dispatcher timeline delete mails --state dead --to=-7d --dry-run\n"
            "  dispatcher timeline dead mails --json | jq -r .id |\n"
            "    dispatcher timeline delete mails - --yes",
            options=DeleteOptions,
            run="dispatcher.cli._commands.timeline.changes:delete",
            replaced={"ids": (*KIND, "all", "state")},
        ),
        "requeue": Command(
            help="let dead messages live again",
            description="Puts dead messages back onto the timeline, with all their attempts: all "
            f"of them, or some.\n{NOTE}",
            epilog="examples:\n  dispatcher timeline requeue mails --dry-run\n"
            "  dispatcher timeline requeue mails --of-group signup --delay 1m --yes",
            options=RequeueOptions,
            run="dispatcher.cli._commands.timeline.changes:requeue",
            exclusive=("at", "delay"),
            replaced={"ids": KIND},
        ),
    },
)
