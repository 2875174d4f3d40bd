"""After a storm: once all is quiet, nothing is lost. One instance alone has all calls in flight
that there may be (law N3)."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import TYPE_CHECKING

from limiters.testing import MixedCalls, Network

if TYPE_CHECKING:
    from tests.simulation.weather import Weather

HEIR = "heir"


def missing(storm: Weather) -> list[str]:
    """All instances are killed, and what is still under way arrives; then one newcomer takes all
    that it can get. Which slots it did not get."""
    cluster, slots = storm.cluster, [one.slots for one in storm.limited]
    if not any(slots):
        return []
    at = slots.index(True)
    storm.calm()
    cluster.network, cluster.away_until = Network(), -math.inf
    for name in sorted(cluster.instances):
        cluster.kill(name)
    cluster.run(cluster.now + 3 * max(storm.lags))
    limit = cluster.server.coordinator.limit
    terms = storm.terms if limit is None else limit.terms
    cost = {"calls": 1} if len(cluster.limit.dimensions) > 1 else 1
    work = MixedCalls([cost], Random(1), lasting=(storm.longest, storm.longest))
    cluster.add(HEIR, work, terms=terms)
    cluster.run(cluster.now + 3 * max(storm.spans) + 8 * storm.interval + 2 * storm.longest)
    calls = [one for one in cluster.calls if one.instance == HEIR]
    steps = sorted([*((one.start, 1) for one in calls), *((one.end, -1) for one in calls)])
    most = max(itertools.accumulate(step for _, step in steps), default=0)
    there = math.floor(cluster.in_force[at][-1][1])
    return [] if most >= there else [f"only {most} of {there} slots are free when all is quiet"]
