"""Create the Worker that the options describe, with its limit and topic."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from tenacity.wait import wait_exponential_jitter

from dispatcher.cli._commands.connecting import URL_OPTION
from dispatcher.cli._commands.missing import no_limit
from dispatcher.cli._commands.worker.options import LIMIT, WorkerCommandOptions
from dispatcher.timeline import Timeline
from dispatcher.worker import Worker
from dispatcher.worker._options import WorkerOptions
from limiters import LimiterConfig, RedisLeaseManager
from limiters._support.options import values_of
from limiters._support.validation import named
from limiters.leases._bounds import limits_of_terms
from limiters.limits import Limits

OF_THE_LIMIT = {
    "cost": "--cost",
    "batch_cost": "--batch-cost",
    "max_operation_time": "--max-operation-time",
}
"""The terms that a Worker checks against its limit: the option for each parameter."""

WHERE = ("url", "name", "prefix", "shared_capacity")
"""Options that identify the shared limit."""


def worker_of(options: WorkerCommandOptions, number: str | None = None) -> Worker:
    """Return the Worker; `number` is the number of this process among several."""
    first, most = options.backoff, options.max_backoff
    how = values_of(WorkerOptions, options)
    how["retry"] = wait_exponential_jitter(initial=first, max=most, jitter=first)
    if options.consumer_id is not None and number is not None:
        how["consumer_id"] = f"{options.consumer_id}-{number}"
    find_handlers_here()
    timeline, limit = timeline_of(options), limit_of(options)
    limiter = None if limit is None else limit.build()
    with named(OF_THE_LIMIT):
        return Worker(timeline, options.handler, rate_limiter=limiter, **how)


def timeline_of(options: WorkerCommandOptions) -> Timeline:
    """Return the Timeline of the options."""
    with named(URL_OPTION):
        return Timeline(options.redis, options.topic, prefix=options.prefix)


def limit_of(options: WorkerCommandOptions) -> LimiterConfig | None:
    """Return the limit; None for no limit."""
    given = LIMIT.given(options)
    if options.limit is None:
        if given["shared_capacity"]:
            raise ValueError("--shared-capacity needs --limit, the name of the limit")
        if not given["reserved_capacity"]:
            return None
        if isinstance(given["reserved_capacity"], Mapping):
            raise ValueError("--reserved by dimension needs --limit, the name of their limit")
        given = {name: value for name, value in given.items() if name not in WHERE}
    elif not given["shared_capacity"]:
        given |= stored(options)
    with named(LIMIT.flags):
        return LimiterConfig(**given)


def stored(options: WorkerCommandOptions) -> dict[str, Any]:
    """Return the stored terms of the limit, for a worker without options for them."""
    with named(URL_OPTION):
        manager = RedisLeaseManager(options.redis, name=options.limit or "", prefix=options.prefix)
    try:
        view = manager.look()
    finally:
        manager.close()
    if view is None:
        raise no_limit(
            manager.where, manager.name, options, ", a worker with --shared-capacity too"
        )
    terms = view.terms
    capacity = limits_of_terms(terms)
    if isinstance(capacity, Limits):
        return {"shared_capacity": capacity, "lease_time": terms.lease / 1000}
    return {
        "shared_capacity": capacity,
        "factor": terms.factor,
        "period": terms.period / 1000,
        "lease_time": terms.lease / 1000,
    }


def find_handlers_here() -> None:
    """Add the working directory to the import path, as `python -m` does."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
