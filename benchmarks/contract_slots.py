"""At most 50 calls in flight, in 30 processes that are killed, stopped and cut off from Redis.

A server that counts calls says how many there are. Calls take 0.05 to 5 s, short ones as often as
long ones by the order of magnitude.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks.contract import beyond_syncs, calls_to
from benchmarks.figures import Figure
from limiters.embedded import EmbeddedRedis
from tests.processes import Processes
from tests.processes.calls import LimitsByDimension
from tests.processes.faults import Faults
from tests.processes.plan import CallerPlan
from tests.servers.counted import Call, busy
from tests.servers.counting_api import CountingApi, now
from tests.servers.proxy import Proxy

SLOTS, PROCESSES, BEHIND_A_PROXY = 50, 30, 8
SHORTEST, LONGEST = 0.05, 5.0
LEASE, INTERVAL = 2.0, 0.5
MAX_OPERATION_TIME = LONGEST + 4.0
"""A call that a process had begun when it was stopped ends in that time."""

SETTLING, SPAN, STORM = 8.0, 20.0, 30.0
LIMITS: LimitsByDimension = {
    "calls": {"in_flight": SLOTS, "max_operation_time": MAX_OPERATION_TIME}
}
LOOKING = 1.0
"""Seconds within which one that is there sees what is free: the last of the bound."""


def run() -> Iterator[Figure]:
    """The figures, of one run."""
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedRedis())
        proxies = [stack.enter_context(Proxy(server)) for _ in range(2)]
        api = stack.enter_context(CountingApi(LIMITS))
        plan = CallerPlan(
            server.url,
            port=api.port,
            limits=LIMITS,
            shortest=SHORTEST,
            longest=LONGEST,
            lease_time=LEASE,
            max_interval=INTERVAL,
        )
        cluster = stack.enter_context(Processes(plan))
        names = [f"p{number}" for number in range(PROCESSES)]
        for number, proxy in enumerate(proxies):
            some = names[number * BEHIND_A_PROXY :][:BEHIND_A_PROXY]
            cluster.start([[name] for name in some], url=proxy.url)
        cluster.start([[name] for name in names[len(proxies) * BEHIND_A_PROXY :]])
        yield from _calm(server, api)
        faults = Faults(cluster, proxies, seed=24)
        faults.cause(STORM)
        time.sleep(SETTLING)
        heir, killed = _leave_one(cluster, names[-1])
        time.sleep(LEASE + MAX_OPERATION_TIME + 2 * INTERVAL + 2 * LOOKING + LONGEST)
        verdict, calls = api.judged(), api.calls()
    happened = ", ".join(f"{times} {what}" for what, times in faults.happened.items())
    note = f"{happened}; {verdict.calls} calls, {verdict.refused} refused by the API"
    name = f"{PROCESSES} processes: calls in flight at most"
    yield Figure(name, verdict.in_flight, "calls", at_most=SLOTS, note=note)
    yield _free_again([one for one in calls if one.who == heir], killed)


def _calm(server: EmbeddedRedis, api: CountingApi) -> Iterator[Figure]:
    time.sleep(SETTLING)
    begin, asked = now(), calls_to(server)
    time.sleep(SPAN)
    end, asked = now(), calls_to(server) - asked
    calls = api.calls()
    name = f"{PROCESSES} processes: busy with a backlog"
    yield Figure(name, busy(calls, begin, end) / SLOTS, f"of {SLOTS}", at_least=0.95)
    served = sum(begin <= one.began < end for one in calls)
    yield Figure(
        f"{PROCESSES} processes: Redis calls beyond 2 a second a process",
        beyond_syncs(asked, PROCESSES, end - begin) / served,
        "a call of the API",
        at_most=0.01,
        note=f"{served / (end - begin):.0f} calls a second",
    )


def _leave_one(cluster: Processes, name: str) -> tuple[str, float]:
    """Kills all but `name` or its successor, which is returned, and when."""
    left = next(names for names in cluster.running if names[0].rstrip("'") == name)
    at = now()
    for names, process in cluster.running.items():
        if names != left:
            process.signal(signal.SIGKILL)
    return left[0], at


def _free_again(calls: Sequence[Call], killed: float) -> Figure:
    """How long after the others were killed the one that is left has all slots."""
    until = LEASE + MAX_OPERATION_TIME
    return Figure(
        f"{PROCESSES - 1} are killed: the other one has all {SLOTS}",
        _all_at_once(calls) - killed,
        "s later",
        at_least=until - INTERVAL,
        at_most=until + 2 * INTERVAL + LOOKING,
        note=f"a lease and the longest operation are {until:g} s",
    )


def _all_at_once(calls: Sequence[Call]) -> float:
    """The first instant at which so many are in flight as are allowed."""
    changes = sorted(change for one in calls for change in ((one.ended, -1), (one.arrived, 1)))
    there = 0
    for at, change in changes:
        there += change
        if there >= SLOTS:
            return at
    return float("inf")
