"""The whole contract of an API: requests and tokens a minute, requests a second, connections.

A minute is six seconds here, the amounts scaled with it. Real processes call an API over HTTP, a
process of its own that counts. Use is compared with a single queue, first come, first served, that
has the same calls (`benchmarks/one_queue.py`): calls of different cost cannot fill several limits
together. ROWS=text runs the rows whose titles contain it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from redis import Redis

from benchmarks.backlog import feeding
from benchmarks.figures import Figure
from benchmarks.one_queue import starts
from dispatcher import Batcher, Watcher
from limiters import InFlight, Limits, Rate, RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from tests.processes import Processes
from tests.processes.calls import LimitsByDimension, Prompt, drawn, in_turns
from tests.processes.plan import CallerPlan
from tests.servers.counted import Allowed, Call, Judgement, used
from tests.servers.counting_api import CountingApi, now

ROWS = os.environ.get("ROWS", "")

PERIOD, INTERVAL = 6.0, 0.5
SETTLING, SPAN = 2 * PERIOD, 8 * PERIOD
SHORTEST, LONGEST = 0.2, 1.0

SYNCS = 1 / INTERVAL
"""Calls to Redis a second that an instance makes to renew its lease."""


@dataclass(frozen=True)
class Mix:
    """The tokens of prompts, each as often as it is named, and what the API allows."""

    title: str
    crowds: tuple[tuple[int, ...], ...]
    """Each of them is the work of an equal part of the instances."""
    tokens: int = 9_000

    @property
    def limits(self) -> LimitsByDimension:
        """The form in which the plan of a process states them."""
        return {
            "requests": {"rate": 60, "per": PERIOD, "also": [[10, 1]]},
            "tokens": {"rate": self.tokens, "per": PERIOD},
            "calls": {"in_flight": 20, "max_operation_time": 10},
        }


MIXES = (
    Mix("60 and 400 tokens as 3:1", ((60, 60, 60, 400),)),
    Mix("60 and 400 tokens as 1:1", ((60, 400),)),
    Mix("one half 60 tokens, the other 400", ((60,), (400,))),
    Mix("20 and 380 tokens of 12,000 as 1:1", ((20, 380),), 12_000),
)


def run() -> Iterator[Figure]:
    for mix in MIXES:
        for count in (4, 12):
            title = f"{mix.title}, {count} processes"
            if ROWS in title:
                yield from _measured(title, mix, count)
    if ROWS in "calls to Redis":
        for dimensions in (1, 5):
            yield _calls_by_shares(dimensions)


def _measured(title: str, mix: Mix, count: int) -> Iterator[Figure]:
    crowds = [
        ([f"c{number}-{n}" for n in range(count // len(mix.crowds))], tokens)
        for number, tokens in enumerate(mix.crowds)
    ]
    with EmbeddedRedis() as server, CountingApi(mix.limits) as api:
        plan = CallerPlan(server.url, port=api.port, limits=mix.limits, max_interval=INTERVAL)
        with Processes(plan) as cluster:
            for names, tokens in crowds:
                cluster.start([[name] for name in names], tokens=tokens)
            time.sleep(SETTLING)
            begin, asked = now(), calls_to(server)
            time.sleep(SPAN)
            end, asked = now(), calls_to(server) - asked
            calls = api.calls()
        verdict = api.judged()
    yield from over(title, verdict)
    queue = _use_of_one_queue(mix, crowds, api.allowed)
    binding = max(queue, key=lambda dimension: queue[dimension])
    capacity = mix.limits[binding]["rate"] / PERIOD
    use = used(calls, binding, begin, end) / capacity / (end - begin)
    yield Figure(
        f"{title}: {binding} used",
        use / queue[binding],
        "of one queue",
        at_least=0.97,
        note=(
            f"{use:.3f} of the limit, the queue {queue[binding]:.3f}; with the calls in the order "
            f"in which they began {_of_replay(calls, api.allowed, begin, end):.3f}"
        ),
    )
    name = f"{title}: Jain's index of dominant shares"
    yield Figure(name, _fairness(calls, mix, begin, end), "", at_least=0.98)
    served = sum(begin <= one.began < end for one in calls)
    # Law C6, for permits.
    name = f"{title}: Redis calls beyond 2 a second a process"
    value = beyond_syncs(asked, count, end - begin) / served
    yield Figure(name, value, "a call of the API", at_most=2.2)


def over(title: str, verdict: Judgement) -> Iterator[Figure]:
    """Whether anything was over, by when the calls began. By when they arrived it is a remark: that
    depends on how long threads and processes were switched out."""
    windows = sum(one.windows for one in verdict.by_began)
    fullest = max(one.most / one.window.most for one in verdict.by_began)
    there = sum(one.over for one in verdict.by_arrived)
    note = (
        f"worst {fullest:.3f}, of {windows}; {verdict.in_flight} in flight; at the API {there} "
        f"over, {verdict.refused} of {verdict.calls} refused, up to {verdict.latest:.3f} s late"
    )
    yield Figure(f"{title}: over", verdict.over, "windows", at_most=0, note=note)


def _use_of_one_queue(
    mix: Mix, crowds: list[tuple[list[str], tuple[int, ...]]], allowed: Allowed
) -> dict[str, float]:
    """Of each dimension with a rate, once it has settled."""
    instances = [
        drawn(name, tokens, SHORTEST, LONGEST) for names, tokens in crowds for name in names
    ]
    # Crowds in turns, too: all came at the same time.
    each = len(instances) // len(crowds)
    ordered = [instances[part * each + n] for n in range(each) for part in range(len(crowds))]
    spent = dict.fromkeys(("requests", "tokens"), 0.0)
    for at, prompt in starts(
        in_turns(ordered), allowed, cost=_cost, seconds=lambda prompt: prompt.seconds
    ):
        if at >= SETTLING + SPAN:
            break
        if at >= SETTLING:
            for dimension in spent:
                spent[dimension] += _cost(prompt, dimension)
    return {
        dimension: one / mix.limits[dimension]["rate"] * PERIOD / SPAN
        for dimension, one in spent.items()
    }


def _fairness(calls: Sequence[Call], mix: Mix, begin: float, end: float) -> float:
    """Each instance's share is that of the dimension of which it has the largest one."""
    shares = []
    for name in {one.who for one in calls}:
        own = [one for one in calls if one.who == name]
        shares.append(
            max(used(own, d, begin, end) / mix.limits[d]["rate"] for d in ("requests", "tokens"))
        )
    return float(sum(shares) ** 2 / len(shares) / sum(one * one for one in shares))


def _of_replay(calls: Sequence[Call], allowed: Allowed, begin: float, end: float) -> float:
    """How long one queue takes for those that began here in [begin, end), and for as many before
    them as there were, against the time that they took."""
    served = sorted((one for one in calls if not one.refused), key=lambda one: one.began)
    times = starts(
        served,
        allowed,
        cost=lambda one, dimension: one.costs.get(dimension, 0),
        seconds=lambda one: min(one.ended, end) - one.arrived,
    )
    measured = [(at, one.began) for at, one in times if begin <= one.began < end]
    (first, first_began), (last, last_began) = measured[0], measured[-1]
    return (last - first) / (last_began - first_began)


def _cost(prompt: Prompt, dimension: str) -> float:
    return prompt.tokens if dimension == "tokens" else 1


def calls_to(server: EmbeddedRedis) -> int:
    """How many scripts the server has run."""
    with Redis.from_url(server.url) as client:
        stats: Any = client.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {}).get("calls", 0))


def beyond_syncs(calls: int, instances: int, seconds: float) -> float:
    """How many of them no instance's syncs explain: one more of each may lie at the edge of the
    time."""
    return max(0.0, calls - instances * (SYNCS * seconds + 1))


INSTANCES, SECONDS = 4, 20.0


def _calls_by_shares(dimensions: int) -> Figure:
    """Of instances that are always busy, where each one's share is worth many batches."""
    rates = {f"rate{number}": Rate(20_000) for number in range(min(dimensions, 4))}
    limits = Limits(**rates, **{"calls": InFlight(200)} if dimensions > 4 else {})
    batchers, feeders = [], []
    with EmbeddedRedis() as server:
        for _ in range(INSTANCES):
            manager = RedisLeaseManager(server.url, name="by-shares")
            limiter = SharedResource(
                shared_capacity=limits, max_interval=INTERVAL, lease_manager=manager
            )
            batcher = Batcher(rate_limiter=limiter, max_buffer_size=1_000)
            watcher = Watcher(
                lambda batch: None,
                max_batch_size=50,
                batch_cost={"calls": 1} if dimensions > 4 else 0,
            )
            batcher.start()
            batchers.append(batcher)
            feeders.append(feeding(batcher, watcher, dict.fromkeys(rates, 10)))
        time.sleep(3)
        begin, calls = now(), calls_to(server)
        time.sleep(SECONDS)
        span, calls = now() - begin, calls_to(server) - calls
        for batcher in batchers:
            batcher.stop(drain=False)
        for feeder in feeders:
            feeder.join()
    name = f"calls to Redis by shares, {dimensions} dimension{'s' * (dimensions > 1)}"
    # One more may lie at the edge of the time.
    most = SYNCS + 1 / SECONDS
    return Figure(name, calls / span / INSTANCES, "a second an instance", at_most=most)
