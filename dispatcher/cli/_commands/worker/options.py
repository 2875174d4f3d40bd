"""The options of `dispatcher worker`, and the Worker that they ask for."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dispatcher.cli._options.options import URL_OPTION, add_flag, add_option, add_redis
from limiters._support.validation import named

if TYPE_CHECKING:
    from dispatcher.timeline import Timeline
    from dispatcher.worker import Worker
    from limiters import SharedResource

OPTION_OF = {
    "url": "--redis",
    "name": "--limit",
    "prefix": "--prefix",
    "shared_capacity": "--shared-capacity",
    "reserved_capacity": "--reserved",
    "factor": "--factor",
    "period": "--period",
    "max_interval": "--max-interval",
    "lease_time": "--limit-lease-time",
    "weight": "--weight",
}
"""Of each parameter of the limiter."""

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def add(parser: argparse.ArgumentParser) -> None:
    """Adds them."""

    def option(
        flag: str,
        kind: Callable[[str], object],
        metavar: str,
        text: str,
        default: object = None,
        **more: Any,
    ) -> None:
        said = "" if default is None else f", {default:g}" if _is_number(default) else ""
        add_option(
            groups[-1], flag, kind, metavar=metavar, text=text + said, default=default, **more
        )

    groups: list[argparse._ActionsContainer] = [parser]
    option(
        "handler",
        str,
        "HANDLER",
        "module:function; takes a list of messages, and a context if it wants one",
        required=True,
    )
    groups.append(parser.add_argument_group("where the work is"))
    add_redis(groups[-1])
    option("--topic", str, "TOPIC", "the timeline's", required=True)
    add_flag(groups[-1], "--create-topic", text="make the topic if nobody has used it before")
    option("--consumer-id", str, "ID", "a name of its own, which gets back what it had before")
    groups.append(parser.add_argument_group("how fast"))
    option("--limit", str, "NAME", "the limit that all with this name share; none if not said")
    option("--shared-capacity", float, "C", "what all share in a period", 0.0)
    option("--factor", float, "C", "what one partition of that is worth", 1.0)
    option("--reserved", float, "C", "what each process may spend beside it", 0.0)
    option("--period", _seconds, "S", "seconds in which a capacity may be spent", 1.0)
    option("--max-interval", _seconds, "S", "seconds between two calls for capacity", 0.5)
    option(
        "--limit-lease-time", _seconds, "S", "seconds until others have a killed one's share", 5.0
    )
    option("--weight", float, "W", "of its share among the others", 1.0)
    option("--cost", _cost, "COST", "of a message: a number, or the name of a field of its body", 1)
    groups.append(parser.add_argument_group("how"))
    option("--max-batch-size", _count, "N", "messages in a batch", 100)
    option("--flush-interval", _seconds, "S", "seconds that a batch waits to be full", 0.1)
    option("--concurrency", _count, "N", "batches at once in the handler", 16)
    option("--processes", _count, "N", "workers, which are started again when they end", 1)
    option("--lease-time", _seconds, "S", "seconds until a killed worker's messages go on", 30.0)
    option("--max-operation-time", _seconds, "S", "seconds that the handler may take", 60.0)
    option("--drain-time", _seconds_or_0, "S", "seconds to finish when it is to stop", 30.0)
    option("--max-attempts", _count, "N", "attempts before a message is dead", 10)
    option("--backoff", _seconds, "S", "seconds after the first failure, doubled each time", 1.0)
    option("--max-backoff", _seconds, "S", "seconds it grows to", 300.0)
    groups.append(parser.add_argument_group("how it is watched"))
    option(
        "--metrics-port",
        _port,
        "PORT",
        "serves /healthz, /readyz and /metrics there; 0 for a free one. With --processes N the "
        "N ports after it are those of the processes",
    )
    option("--metrics-host", str, "HOST", "this machine only, if not said", "127.0.0.1")
    option("--log-level", str.upper, "LEVEL", "what is logged, INFO", "INFO", choices=LEVELS)
    add_flag(groups[-1], "--fail-fast", text="end where Redis does not answer at the start")
    groups[-1].add_argument(
        "--check",
        action="store_true",
        help="print the configuration and where it comes from, test the connections, and end",
    )


def worker(options: argparse.Namespace, number: str | None = None) -> Worker:
    """The Worker that they ask for; `number` is which of several processes this is."""
    from tenacity.wait import wait_exponential_jitter

    from dispatcher.worker import Worker

    first, most = options.backoff, options.max_backoff
    consumer_id = options.consumer_id
    if consumer_id is not None and number is not None:
        consumer_id = f"{consumer_id}-{number}"
    find_handlers_here()
    return Worker(
        timeline(options),
        options.handler,
        rate_limiter=limiter(options),
        consumer_id=consumer_id,
        lease_time=options.lease_time,
        max_batch_size=options.max_batch_size,
        cost=options.cost,
        retry=wait_exponential_jitter(initial=first, max=most, jitter=first),
        max_attempts=options.max_attempts,
        concurrency=options.concurrency,
        flush_interval=options.flush_interval,
        max_operation_time=options.max_operation_time,
        drain_time=options.drain_time,
    )


def timeline(options: argparse.Namespace) -> Timeline:
    """The topic, and where it is."""
    from dispatcher.timeline import Timeline

    with named(URL_OPTION):
        return Timeline(options.redis, options.topic, prefix=options.prefix)


def limiter(options: argparse.Namespace) -> SharedResource | None:
    """None: as fast as it goes."""
    from limiters.config import LimiterConfig

    if options.limit is None and not options.reserved:
        if options.shared_capacity:
            raise ValueError("--shared-capacity needs --limit: the name of what is shared")
        return None
    shared: dict[str, Any] = {}
    if options.limit is not None:
        if not options.shared_capacity:
            raise ValueError(
                "--limit needs --shared-capacity, what all who share it may spend in a period, and "
                "--factor (a limit that is there already keeps its own)"
            )
        shared = {
            "url": options.redis,
            "name": options.limit,
            "prefix": options.prefix,
            "shared_capacity": options.shared_capacity,
        }
    with named(OPTION_OF):
        return LimiterConfig(
            **shared,
            reserved_capacity=options.reserved,
            factor=options.factor,
            period=options.period,
            max_interval=options.max_interval,
            lease_time=options.limit_lease_time,
            weight=options.weight,
        ).build()


def find_handlers_here() -> None:
    """Modules of the working directory can be imported, as `python -m` does it."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cost(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _seconds(text: str) -> float:
    return _at_least(float(text), above=True)


def _seconds_or_0(text: str) -> float:
    return _at_least(float(text), above=False)


def _at_least(number: float, *, above: bool) -> float:
    if not (number > 0 if above else number >= 0) or number == float("inf"):
        raise argparse.ArgumentTypeError(f"it must be {'more than' if above else 'at least'} 0")
    return number


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError("it must be a whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError("it must be from 0 to 65535")
    return number
