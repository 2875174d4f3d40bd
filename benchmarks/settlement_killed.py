"""Actual costs known only afterwards, in processes of which a quarter is killed in mid-call, over
and over.

An API counts what each call has cost in truth, also of those whose process was killed before it
could settle. Calls are estimated at the most that they may cost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

from benchmarks.figures import Figure
from limiters.embedded import EmbeddedRedis
from tests.processes import Processes
from tests.processes.calls import LimitsByDimension
from tests.processes.plan import CallerPlan
from tests.servers.counting_api import CountingApi

PROCESSES, ROUNDS = 12, 8
PERIOD, LEASE, INTERVAL = 6.0, 2.0, 0.5
ESTIMATED = 4_500
TOKENS = (500, 1_000, 1_000, 2_000, ESTIMATED)
LIMITS: LimitsByDimension = {"tokens": {"rate": 100 * ESTIMATED, "per": PERIOD}}
PATIENCE = 20.0
"""Seconds after which a round ends, whether or not enough processes have a call in flight."""


def run() -> Iterator[Figure]:
    """The figures, of one run."""
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedRedis())
        api = stack.enter_context(CountingApi(LIMITS))
        plan = CallerPlan(
            server.url,
            port=api.port,
            limits=LIMITS,
            tokens=TOKENS,
            estimated=ESTIMATED,
            shortest=0.2,
            longest=1.0,
            lease_time=LEASE,
            max_interval=INTERVAL,
        )
        cluster = stack.enter_context(Processes(plan))
        cluster.start([[f"p{number}"] for number in range(PROCESSES)])
        chance, killed = Random(25), 0
        for _ in range(ROUNDS):
            time.sleep(PERIOD / 2)
            killed += _kill_a_quarter(cluster, api, chance)
        time.sleep(PERIOD)
        verdict = api.judged()
    note = f"{killed} killed in mid-call, {verdict.calls} calls, {verdict.refused} refused"
    name = f"{PROCESSES} processes, a quarter killed every {PERIOD / 2:g} s: windows over"
    yield Figure(name, verdict.over, "by actual costs", at_most=0, note=note)
    full = max(one.most / one.window.most for one in verdict.by_began)
    yield Figure("the fullest of them", full, "of the limit", at_most=1.0)


def _kill_a_quarter(cluster: Processes, api: CountingApi, chance: Random) -> int:
    """Kills processes that have a call in flight; each has a successor. Returns how many."""
    left, killed = PROCESSES // 4, 0
    deadline = time.monotonic() + PATIENCE
    while left and time.monotonic() < deadline:
        calling = {one.who for one in api.calls() if one.ended == math.inf}
        names = [names for names in cluster.running if names[0] in calling]
        for one in chance.sample(names, min(left, len(names))):
            cluster.running.pop(one).end()
            cluster.start([[f"{one[0]}'"]])
            left, killed = left - 1, killed + 1
    return killed
