"""The Worker that the options ask for, and its limit and topic."""

from __future__ import annotations

import os
import sys
from typing import Any

from tenacity.wait import wait_exponential_jitter

from dispatcher.cli._commands.connecting import URL_OPTION
from dispatcher.cli._commands.worker.options import WorkerCommandOptions
from dispatcher.timeline import Timeline
from dispatcher.worker import Worker
from dispatcher.worker._options import WorkerOptions
from limiters import LimiterConfig, SharedResource
from limiters._support.options import values_of
from limiters._support.validation import named

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


def worker_of(options: WorkerCommandOptions, number: str | None = None) -> Worker:
    """The Worker that they ask for; `number` is which of several processes this is."""
    first, most = options.backoff, options.max_backoff
    how = values_of(WorkerOptions, options)
    how["retry"] = wait_exponential_jitter(initial=first, max=most, jitter=first)
    if options.consumer_id is not None and number is not None:
        how["consumer_id"] = f"{options.consumer_id}-{number}"
    find_handlers_here()
    return Worker(timeline_of(options), options.handler, rate_limiter=limiter_of(options), **how)


def timeline_of(options: WorkerCommandOptions) -> Timeline:
    """The topic, and where it is."""
    with named(URL_OPTION):
        return Timeline(options.redis, options.topic, prefix=options.prefix)


def limiter_of(options: WorkerCommandOptions) -> SharedResource | None:
    """None: as fast as it goes."""
    if options.limit is None and options.shared_capacity:
        raise ValueError("--shared-capacity needs --limit: the name of what is shared")
    if options.limit is None and not options.reserved:
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
