"""`dispatcher worker --check`: show the configuration and its sources, and test the connections."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple

from dispatcher.cli._commands.missing import no_topic
from dispatcher.cli._commands.worker import making, used_table
from dispatcher.cli._commands.worker.options import LIMIT, WorkerCommandOptions
from dispatcher.cli._exit_codes import FAILED, MISUSED, CheckFailedError, code_of
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._options.settings import flag_of
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.showable import without_passwords
from dispatcher.cli._text.wording import grants, in_words, per_period
from dispatcher.worker._costs import Cost
from limiters._costs import is_covered
from limiters._sharing.terms_in_words import differences
from limiters.errors import DispatcherError, ExceedsCapacityError
from limiters.leases._bounds import limits_of_terms, terms_of_limits
from limiters.leases._messages import Terms
from limiters.limits import Limits

DECIDED_BY = {
    "topic": {"redis", "prefix", "topic"},
    "limit": {"redis", "prefix", "limit", "shared_capacity"},
    "worker": {"cost", "batch_cost", "max_operation_time"},
}
"""The options without which a check would judge something else than what was meant: what it found
with their defaults would be wrong."""


class CheckResult(NamedTuple):
    """The result of a check."""

    tried: str
    said: str
    problem: Exception | None = None
    was_tried: bool = True

    @property
    def mark(self) -> str:
        """How it is marked in the table."""
        if not self.was_tried:
            return "-"
        return "ok" if self.problem is None else "NO"


def run(options: WorkerCommandOptions, call: Invocation) -> None:
    """Print configuration and results. If there is a problem, raise CheckFailedError: for wrong
    usage first, otherwise for the kind of failure if there is only one."""
    show(used_table.page(call.used))
    wrong = [CheckResult("option", str(error), error) for error in call.refused.values()]
    findings = [*wrong, *_findings(options, call.refused.keys())]
    rows = [
        Row((one.mark, one.tried, without_passwords(one.said)), marked=one.problem is not None)
        for one in findings
    ]
    show(TablePage(("", "tried", "found"), rows, head=("",)))
    bad = {one.tried: one.problem for one in findings if one.problem is not None}
    if bad:
        codes = {code_of(error) or FAILED for error in bad.values()}
        code = MISUSED if MISUSED in codes else codes.pop() if len(codes) == 1 else FAILED
        raise CheckFailedError(f"could not work: {', '.join(bad)}", code)


def _findings(options: WorkerCommandOptions, refused: Set[str]) -> Iterator[CheckResult]:
    def tried(name: str, find: Callable[[], str], *needs: CheckResult) -> CheckResult:
        missing = [flag_of(one) for one in sorted(DECIDED_BY.get(name, set()) & refused)]
        missing += [f"the {one.tried}" for one in needs if one.mark != "ok"]
        if missing:
            return CheckResult(
                name, f"not tried before {' and '.join(missing)} is right", None, False
            )
        try:
            return CheckResult(name, find())
        except (DispatcherError, ValueError, OSError) as error:
            return CheckResult(name, str(error), error)

    handler = tried("handler", lambda: _handler(options))
    topic = tried("topic", lambda: _topic(options))
    limit = tried("limit", lambda: _limit(options))
    yield from (handler, topic, limit)
    if (port := options.metrics_port) is not None:
        yield tried("port", lambda: _port(options, port))
    is_misused = isinstance(topic.problem, ValueError)  # else a worker can be made without it
    yield tried("worker", lambda: _worker(options), handler, limit, *[topic] * is_misused)


def _handler(options: WorkerCommandOptions) -> str:
    from dispatcher._handler import load

    making.find_handlers_here()
    handler = load(options.handler)
    kind = "async def" if handler.is_async else "def"
    return f"{handler.name}, {kind}{', takes a context' if handler.takes_context else ''}"


def _topic(options: WorkerCommandOptions) -> str:
    timeline = making.timeline_of(options)
    try:
        if not timeline.exists():
            if options.create_topic:
                return f"does not exist yet in {timeline.where}, to be created"
            raise no_topic(timeline.where, options.topic, options)
        stats = timeline.stats()
        return (
            f"{timeline.where}: {stats.new + stats.lost:,} due, {stats.waiting:,} waiting, "
            f"{stats.processing:,} processing, {stats.dead:,} dead, {stats.consumers} consumers"
        )
    finally:
        timeline.close()


def _limit(options: WorkerCommandOptions) -> str:
    from limiters import RedisLeaseManager

    limit = making.limit_of(options)  # it refuses wrong values, and sends nothing
    if limit is None:
        return "none"
    if limit.url is None:
        return f"{in_words(limit.reserved_capacity)} for each process"
    manager = RedisLeaseManager(limit.url, name=limit.name, prefix=limit.prefix)
    try:
        view = manager.look()
    finally:
        manager.close()
    if view is None:
        return (
            f"{limit.name}: does not exist yet, to be created with "
            f"{in_words(limit.shared_capacity)}"
        )
    stored, asked = limits_of_terms(view.terms), limit.shared_capacity
    _check_dimensions(asked, view.terms)
    unlike = asked != stored and LIMIT.given(options)["shared_capacity"]
    other = f" (not {in_words(asked)}: the stored value counts)" if unlike else ""
    wait = f"; it grants {grants(view)}" if view.uncertain_ms or view.unconfirmed_ms else ""
    per = "" if isinstance(stored, Limits) else f" {per_period(view.terms)}"
    return f"{limit.name}: {in_words(stored)}{per}{other}{wait}"


def _check_dimensions(asked: float | Limits, stored: Terms) -> None:
    """Refuse other dimensions than those that are stored: the worker would get nothing."""
    own = terms_of_limits(Limits.of(asked), 1, stored.lease)
    if own.layout != stored.layout:
        raise DispatcherError(
            f"{differences(own, stored)} of the limit; leave out --shared-capacity, or start it "
            "over for all instances with dispatcher limit set --start-over"
        )


def _check_costs(options: WorkerCommandOptions) -> None:
    """Refuse costs with which no message could ever be sent, as far as they are known."""
    limit = making.limit_of(options)
    if limit is None:
        return
    limits = limit.build().limits
    cost, batch_cost = (
        limits.checked(name, _known(getattr(options, name))) for name in ("cost", "batch_cost")
    )
    if not is_covered(limits.most, cost + batch_cost):
        raise ExceedsCapacityError(cost, limits.most, batch_cost, limits.tightest_windows)


def _known(cost: Cost) -> object:
    """Return the part of a cost that is no field of the body."""
    if isinstance(cost, Mapping):
        return {name: one for name, one in cost.items() if not isinstance(one, str)}
    return {} if isinstance(cost, str) else cost


def _worker(options: WorkerCommandOptions) -> str:
    made = making.worker_of(options)  # it refuses wrong values, and sends nothing
    made.timeline.close()
    _check_costs(options)
    return f"{options.concurrency} batches at a time, of {options.max_batch_size} messages at most"


def _port(options: WorkerCommandOptions, first: int) -> str:
    from dispatcher.worker._process.health_server import family_of

    family = family_of(options.metrics_host, first)
    many = options.processes if options.processes > 1 else 0
    for port in range(first, first + many + 1):
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((options.metrics_host, port))
            except OverflowError as error:
                raise ValueError(f"{options.metrics_host}:{port}: {error}") from None
            except OSError as error:
                said = error.strerror or error
                raise DispatcherError(f"{options.metrics_host}:{port}: {said}") from None
    return f"{options.metrics_host}:{first} is free"
