"""The options of `dispatcher worker`: topic, log, shared limit, and those of a Worker."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.checks import port, processes
from dispatcher.cli._options.declaring import Command, argument, flag, option
from dispatcher.cli._options.families import OptionFamily
from dispatcher.cli._options.logs import WATCHED, LogOptions
from dispatcher.cli._options.redis import RedisOptions
from dispatcher.worker._options import WorkerOptions
from limiters._sharing.options import LimiterOptions
from limiters._support.validation import seconds

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

SPEED = "how fast"


@dataclass(frozen=True, kw_only=True)
class WorkPlaceOptions(RedisOptions):
    """The topic and the handler."""

    handler: str = argument(
        "HANDLER",
        "module:function; takes a list of messages, and a context if it wants one",
        variable="DISPATCHER_HANDLER",
    )
    topic: str = option("the topic of the timeline", "TOPIC", required=True)
    create_topic: bool = flag("create the topic if there is none")


LIMIT = OptionFamily(
    LimiterOptions,
    group=SPEED,
    url="redis",
    name="limit",
    reserved_capacity="reserved",
    lease_time="limit_lease_time",
)


@dataclass(frozen=True, kw_only=True)
@LIMIT.added
class SharedLimitOptions(RedisOptions):
    """The limit that workers share, if there is one."""

    limit: str | None = option(
        "the limit that all with this name share; default: none. An existing limit needs no "
        "--shared-capacity",
        "NAME",
        group=SPEED,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerCommandOptions(LogOptions, WorkerOptions, SharedLimitOptions, WorkPlaceOptions):
    """All options of the command."""

    backoff: float = option(
        "the wait after the first failure, doubled each time", "S", 1.0, check=seconds, unit="s"
    )
    max_backoff: float = option(
        "the longest wait between two attempts", "S", 300.0, check=seconds, unit="s"
    )
    processes: int = option(
        "number of worker processes; one that ends is restarted", "N", 1, check=processes
    )
    metrics_port: int | None = option(
        "serves /healthz, /readyz and /metrics there; 0 for a free one. With --processes N the "
        "N ports after it are those of the processes",
        "PORT",
        check=port,
        group=WATCHED,
    )
    metrics_host: str = option(
        "who may ask; 127.0.0.1 is this machine only, 0.0.0.0 all",
        "HOST",
        "127.0.0.1",
        group=WATCHED,
    )
    log_level: str = option(
        "what is logged", "LEVEL", "INFO", read=str.upper, choices=LEVELS, group=WATCHED
    )
    fail_fast: bool = flag("exit if Redis does not answer at the start", group=WATCHED)
    check: bool = flag(
        "print the configuration and where it comes from, test the connections, and end",
        group=WATCHED,
    )


WORKER = Command(
    description="Leases due messages of a topic, passes them to HANDLER in batches, no faster "
    "than the limit\nallows, and deletes those that succeed. A message that fails comes again "
    "after a back-off, and is\ndead after the last attempt.",
    epilog="""example:
  dispatcher worker shop.handlers:send --topic reminders --limit cosmos-orders \\
      --shared-capacity 20000 --factor 1000 --max-batch-size 500 --metrics-port 9464

exit codes: 0 drained after SIGTERM or SIGINT, 1 failed (the text says why), 2 wrong usage,
3 no such topic or limit, 4 no answer from Redis at the start, 130 or 143 stopped immediately by
a second SIGINT or SIGTERM""",
    options=WorkerCommandOptions,
    run="dispatcher.cli._commands.worker.command:run",
    lenient="check",
)
