"""The options of `dispatcher timeline`, and of each of its actions."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.declaring import Command, CommandGroup, argument, flag, option
from dispatcher.cli._options.redis import RedisOptions, TopicOptions
from dispatcher.cli._text.moments import DURATIONS, TIMES, When, seconds_of, when_of

STATES = ("new", "lost", "waiting", "processing", "dead")
CHANGED_STATES = ("new", "lost", "waiting", "dead")
"""What no consumer has."""

MOST_PEEKED = 500
MOST_BARS = 30

ALL_OF_THEM = "a line of JSON for each message, with all of its body"
OUTCOMES = "one line of JSON with the number of each outcome"
KIND = ("of_group", "start", "end")
"""What says which kind of messages, in place of their ids."""

NOTE = (
    "Each is changed in the name of the group that owns it, and only if nothing has changed it "
    "since it\nwas seen. What a consumer has is left alone. With more than one it asks first."
)


@dataclass(frozen=True, kw_only=True)
class TopicListOptions(RedisOptions):
    """How they are shown."""

    json: bool = flag("one line of JSON, durations in seconds, times in epoch milliseconds")


@dataclass(frozen=True, kw_only=True)
class StatsOptions(TopicOptions):
    """Which topic, and how it is shown."""

    json: bool = flag("one line of JSON, durations in seconds, times in epoch milliseconds")


@dataclass(frozen=True, kw_only=True)
class DeadOptions(TopicOptions):
    """How many messages are shown, and how."""

    limit: int = option(
        f"how many at most, up to {MOST_PEEKED}", "N", 20, variable="DISPATCHER_PEEK_LIMIT"
    )
    json: bool = flag(ALL_OF_THEM)


@dataclass(frozen=True, kw_only=True)
class PeekOptions(DeadOptions):
    """Which messages are shown."""

    state: tuple[str, ...] = option(
        "only those in this state; may be said again; all but dead if not said",
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
    """Which messages are counted, and how they are shown."""

    start: When | None = option(f"now if not said: {TIMES}", "TIME", flag="--from", read=when_of)
    end: When | None = option("an hour after --from if not said", "TIME", flag="--to", read=when_of)
    step: float | None = option(
        f"what one bar stands for: {DURATIONS}; up to {MOST_BARS} bars if not said",
        "DURATION",
        read=seconds_of,
    )
    state: str | None = option("all but dead if not said", "", choices=STATES)
    json: bool = flag("one line of JSON: epoch milliseconds and the number of each step")


@dataclass(frozen=True, kw_only=True)
class CreateOptions(TopicOptions):
    """What is created, whose, and when it is due."""

    bodies: tuple[str, ...] = argument("BODY", "what the messages say", ())
    group: str = option("whose they are", "GROUP", required=True)
    id: str | None = option("of the one message whose BODY is said", "ID")
    body_json: bool = flag("each BODY is JSON, and not a text")
    at: When | None = option(f"when they are due: {TIMES}", "TIME", read=when_of)
    delay: float | None = option(f"or in how long: {DURATIONS}", "DURATION", read=seconds_of)
    create_topic: bool = flag("make the topic if there is none")
    buckets: int | None = option("of a new topic; 64 if not said, never changes", "N")
    dry_run: bool = flag("read all of it, and create nothing")
    json: bool = flag(OUTCOMES)


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(TopicOptions):
    """Which messages are changed, and whether to ask."""

    ids: tuple[str, ...] = argument("ID", "these messages; - reads ids from stdin, one a line", ())
    of_group: str | None = option("all of this group", "GROUP")
    start: When | None = option(
        f"all from this time on: {TIMES}", "TIME", flag="--from", read=when_of
    )
    end: When | None = option(
        "all before; one in the past: --to=-1h", "TIME", flag="--to", read=when_of
    )
    dry_run: bool = flag("only say how many there are")
    yes: bool = flag("do not ask")
    json: bool = flag(OUTCOMES)

    @property
    def is_filtered(self) -> bool:
        """Whether the options name a kind of messages."""
        return any((self.of_group, self.start, self.end))


@dataclass(frozen=True, kw_only=True)
class DeleteOptions(ChangeOptions):
    """Which messages are deleted."""

    all: bool = flag("all that live and nobody has")
    state: tuple[str, ...] = option(
        "all in this state; may be said again", "", (), choices=CHANGED_STATES
    )

    @property
    def is_filtered(self) -> bool:
        """Whether the options name a kind of messages."""
        return super().is_filtered or bool(self.state)


@dataclass(frozen=True, kw_only=True)
class DueOptions(ChangeOptions):
    """When messages are due from now on."""

    at: When | None = option(f"due then: {TIMES}", "TIME", read=when_of)
    delay: float | None = option(f"due so long from now: {DURATIONS}", "DURATION", read=seconds_of)


@dataclass(frozen=True, kw_only=True)
class MoveOptions(DueOptions, DeleteOptions):
    """Which messages are moved, and to when."""


@dataclass(frozen=True, kw_only=True)
class RequeueOptions(DueOptions):
    """Which dead messages live again, and when they are due."""


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
            help="what it has, had, and how late it is",
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
            "or they died. Nothing is\nchanged. The body of a message that a consumer has is not "
            "told.",
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
            '"delay". A message whose id is there\nalready changes nothing, so that it is safe to '
            "say the same again.",
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
