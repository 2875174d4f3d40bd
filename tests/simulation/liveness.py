"""Judges who waits: an instance with work that reaches a sure coordinator gets capacity in time.

It reads what instances have to do and which terms they know, and shares no code with the product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from limiters.leases._messages import Kind, Reply, Terms
from limiters.limits import Bound, BoundKind
from limiters.testing import SimulatedCluster, SimulatedInstance
from limiters.verifier import Spent

CREDIT_PERIODS = 2
"""For so many periods at most, those who could not spend their fair share are compensated."""

FEW_BATCHES = {1: 2}
"""An instance whose fair share is worth at most so many batches may live on permits, by the number
of rates; `FEW_OF_SEVERAL` where there are several."""

FEW_OF_SEVERAL = 50

PERMIT_S, PERMIT_PERIODS = 0.02, 0.25
"""A permit lasts for a quarter of the shortest period, and this much longer; for half a lease and
for `LONGEST_PERMIT_S` at most."""

LONGEST_PERMIT_S = 0.3

TURN_INTERVALS = 8
"""Instances that share fewer slots than they are take turns, each so many sync intervals long."""

TURNS_BETWEEN = 3
"""An instance whose fair share is 1/n of a slot has a turn in each row of so many times n."""

LOOKS = 4
"""How often in a sync interval it looks at all instances."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The facts about one instance from which it is judged how long it may wait."""

    periods: float
    """For how many periods its fair share has to accumulate to make up for its next batch."""
    part: float
    """Its next batch as a part of the limit, in the rate where that is largest."""
    turns: float
    """How many instances of its weight there are for each slot that its next batch takes."""
    works: bool
    fits: bool
    """Whether its next batch costs no more than the limit."""


class Liveness:
    """Looks at all instances of a cluster, again and again.

    An instance waits from when it has work and all of this holds: it runs, its requests are
    answered, and the coordinator is sure. Its time begins again with each spending, with each
    exchange that fails, with each permit that has expired on its way, and with each change of what
    it may expect. It may wait for two leases and a period, and for as long as its fair share took
    to make up for a batch, since it last spent; where a fair share is worth few batches, also for
    the credit that others may have, and for one operation of each of them (law C4). Where calls in
    flight are limited, it may wait until a call of another has ended and a sync has moved its slot;
    if it has to share a slot, until its turn has come, however long calls last.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.stalled: list[str] = []
        self.waits = 0
        """How many times an instance had to wait, and got something."""
        self._since: dict[str, float] = {}
        self._facts: dict[str, tuple[object, ...]] = {}
        self._bounds: dict[str, float] = {}
        self._sure: dict[str, bool] = {}
        self._late: dict[str, int] = {}
        """How many permits have expired on their way."""
        self._spent: dict[str, int] = {}
        self._spent_before: dict[str, int] = {}
        self._seen = 0
        self._recent: list[tuple[float, float]] = []
        """(until when it counts, weight) of instances that are gone, but not given up."""
        self._known: dict[str, SimulatedInstance] = {}
        rates = sum(one.kind is BoundKind.RATE for one in cluster.limit.bounds)
        self._few = FEW_BATCHES.get(rates, FEW_OF_SEVERAL)

    def start(self) -> None:
        """Watch the cluster from this moment."""
        self.cluster.listeners.append(self._heard)
        self.cluster.at(self.cluster.now, self._look)

    def _heard(self, instance: SimulatedInstance, reply: Reply) -> None:
        name = instance.name
        self._sure[name] = reply.kind is Kind.ANSWER and reply.certain
        if reply.permit and instance.took > permit_lasts(instance.share.terms):
            self._late[name] = self._late.get(name, 0) + 1

    def _look(self, now: float) -> None:
        cluster = self.cluster
        self._count(cluster.log)
        for name in [name for name in self._known if name not in cluster.instances]:
            gone = self._known.pop(name)
            kept = 2 * gone.share.terms.span / 1000 + 4 * gone.share.interval
            self._recent.append((now + kept, gone.share.profile.weight / 1000))
        self._recent = [one for one in self._recent if one[0] > now]
        weights = math.fsum(one.share.profile.weight / 1000 for one in cluster.instances.values())
        weights += math.fsum(weight for _, weight in self._recent)
        each = {name: self._waiting(one, weights, now) for name, one in cluster.instances.items()}
        few = [
            one.part for one in each.values() if one.works and one.periods * self._few >= 1 - 1e-9
        ]
        others = CREDIT_PERIODS + math.fsum(few) if few else 0.0
        for name, instance in cluster.instances.items():
            self._known[name] = instance
            self._look_at(instance, each[name], others, now)
        cluster.at(now + cluster.interval / LOOKS, self._look)

    def _count(self, log: list[Spent]) -> None:
        for entry in log[self._seen :]:
            self._spent[entry.instance] = self._spent.get(entry.instance, 0) + 1
        self._seen = len(log)

    def _waiting(self, instance: SimulatedInstance, weights: float, now: float) -> Wait:
        part, slots = 0.0, 0.0
        for bound, one in zip(self.cluster.limit.bounds, instance.share.terms.bounds, strict=True):
            piece = amount_of(instance.work.piece, bound) / (one.in_force or one.capacity)
            if bound.kind is BoundKind.SLOTS:
                slots = max(slots, piece)
            else:
                part = max(part, piece)
        others = weights / (instance.share.profile.weight / 1000)
        works = bool(instance.work.waiting(now))
        return Wait(part * others, part, slots * others, works, max(part, slots) <= 1)

    def _look_at(
        self, instance: SimulatedInstance, waiting: Wait, others: float, now: float
    ) -> None:
        name, share = instance.name, instance.share
        cut = max(instance.cut_until, instance.deaf_until, instance.hangs_until)
        waits = (
            waiting.works
            and now >= max(cut, self.cluster.away_until)
            and not (instance.leaving or instance.evicted)
            and self._sure.get(name, False)
            and waiting.fits
        )
        spent = self._spent.get(name, 0)
        late = self._late.get(name, 0)
        work = id(instance.work)
        facts = (waits, instance.failures, late, self.cluster.server, work, share.terms)
        before, self._facts[name] = self._facts.get(name), facts
        if facts != before:
            self._since[name], self._bounds[name] = now, 0.0
            self._spent_before[name] = spent
            return
        bound = self.bound(share.terms, waiting, others)
        if spent != self._spent_before[name]:
            self._spent_before[name] = spent
            self.waits += now - self._since[name] > 2 * self.cluster.interval
            self._since[name], self._bounds[name] = now, bound
            return
        self._bounds[name] = max(self._bounds.get(name, 0.0), bound)
        if not waits or now - self._since[name] <= self._bounds[name]:
            return
        waited = now - self._since[name]
        told = f"{name} got nothing for {waited:.3f} s until {now:.3f}"
        self.stalled.append(f"{told}, more than {self._bounds[name]:.3f} s")
        self._since[name] = now

    def bound(self, terms: Terms, waiting: Wait, others: float) -> float:
        """How long an instance may wait for its next batch, as things are; `others` is the time, in
        periods, for those who live on permits."""
        windows = [one.period / 1000 for one in terms.bounds if not one.slots]
        period = max(windows, default=0.0)
        batch = waiting.periods if waiting.periods > 1 else 0.0
        bound = 2 * terms.lease / 1000 + (1 + batch + others) * period
        return bound + (self._turns(terms, waiting) if waiting.turns else 0.0)

    def _turns(self, terms: Terms, waiting: Wait) -> float:
        """How long an instance may wait for a slot. A turn may find no slot free, since calls of
        others go on."""
        longest = max(one.period / 1000 for one in terms.bounds if one.slots)
        interval = self.cluster.interval
        if waiting.turns <= 1:
            return longest + 2 * interval
        turns = TURNS_BETWEEN * waiting.turns + 1  # and that which is under way
        return turns * (TURN_INTERVALS * interval + longest)


def amount_of(cost: Mapping[str, float] | float, bound: Bound) -> float:
    """Return the part of a cost that counts in a bound."""
    return cost.get(bound.dimension, 0.0) if isinstance(cost, Mapping) else cost


def permit_lasts(terms: Terms) -> float:
    """For how many seconds an instance can use a permit, from its request on."""
    shortest = min((one.period for one in terms.bounds if not one.slots), default=terms.lease)
    lasts = PERMIT_S + PERMIT_PERIODS * shortest / 1000
    return min(lasts, LONGEST_PERMIT_S, terms.lease / 2000)
