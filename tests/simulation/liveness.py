"""Judges who waits: an instance with work that reaches a sure coordinator gets capacity in time."""

from __future__ import annotations

import math

from limiters.leases._messages import Kind, Reply
from limiters.testing import SimulatedCluster, SimulatedInstance
from limiters.verifier import Spent

CREDIT_PERIODS = 2
"""For so many periods at most, those who could not spend their fair share are compensated."""

FEW_BATCHES = 2
"""An instance whose fair share is worth at most so many batches may live on permits."""

LOOKS = 8
"""How often in a sync interval it looks at all instances."""


class Liveness:
    """Looks at all instances of a cluster, again and again.

    An instance waits from when it has work and all of this holds: it runs, its requests are
    answered, and the coordinator is sure. Its time begins again with each spending, with each
    exchange that fails and with each change of what it may expect. It may wait for two leases and
    a period, and for as long as its fair share took to make up for a batch, since it last spent;
    where a fair share is worth few batches, also for the credit that others may have, and for one
    operation of each of them (law C4).
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.stalled: list[str] = []
        self.waits = 0
        """How many times somebody had to wait, and got something."""
        self._since: dict[str, float] = {}
        self._facts: dict[str, tuple[object, ...]] = {}
        self._bounds: dict[str, float] = {}
        self._sure: dict[str, bool] = {}
        self._spent: dict[str, int] = {}
        self._spent_before: dict[str, int] = {}
        self._seen = 0
        self._recent: list[tuple[float, float]] = []
        """(until when it counts, weight) of instances that are gone, but not given up."""
        self._known: dict[str, SimulatedInstance] = {}

    def start(self) -> None:
        """From now on."""
        self.cluster.listeners.append(self._heard)
        self.cluster.at(self.cluster.now, self._look)

    def _heard(self, instance: SimulatedInstance, reply: Reply) -> None:
        self._sure[instance.name] = reply.kind is Kind.ANSWER and reply.certain

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
        for name, instance in cluster.instances.items():
            self._known[name] = instance
            self._look_at(instance, weights, now)
        cluster.at(now + cluster.interval / LOOKS, self._look)

    def _count(self, log: list[Spent]) -> None:
        for entry in log[self._seen :]:
            self._spent[entry.instance] = self._spent.get(entry.instance, 0) + 1
        self._seen = len(log)

    def _look_at(self, instance: SimulatedInstance, weights: float, now: float) -> None:
        name, share = instance.name, instance.share
        cut = max(instance.cut_until, instance.deaf_until, instance.hangs_until)
        work = instance.work.waiting(now)
        waits = (
            bool(work)
            and now >= max(cut, self.cluster.away_until)
            and not (instance.leaving or instance.evicted)
            and self._sure.get(name, False)
            and self._fits(instance)
        )
        spent = self._spent.get(name, 0)
        facts = (waits, instance.failures, share.terms, self.cluster.server, id(instance.work))
        if facts != self._facts.get(name):
            self._facts[name] = facts
            self._since[name], self._bounds[name] = now, 0.0
            self._spent_before[name] = spent
            return
        if spent != self._spent_before[name]:
            self._spent_before[name] = spent
            self.waits += now - self._since[name] > 2 * self.cluster.interval
            self._since[name], self._bounds[name] = now, self.bound(instance, weights)
            return
        self._bounds[name] = max(self._bounds.get(name, 0.0), self.bound(instance, weights))
        if not waits or now - self._since[name] <= self._bounds[name]:
            return
        waited = now - self._since[name]
        self.stalled.append(f"{name} got nothing for {waited:.3f} s until {now:.3f}")
        self._since[name] = now

    def bound(self, instance: SimulatedInstance, weights: float) -> float:
        """How long an instance may wait for its next batch, as things are."""
        terms = instance.share.terms
        period = max(one.period / 1000 for one in terms.bounds)
        batch = self._batches(instance, weights)
        bound = 2 * terms.lease / 1000 + period + (batch * period if batch > 1 else 0.0)
        others = self.cluster.instances.values()
        now = self.cluster.now
        few = [
            max(self._parts(one))
            for one in others
            if self._batches(one, weights) * FEW_BATCHES >= 1 - 1e-9 and one.work.waiting(now)
        ]
        if few:
            bound += (CREDIT_PERIODS + math.fsum(few)) * period
        return bound

    def _batches(self, instance: SimulatedInstance, weights: float) -> float:
        """For how many periods the fair share has to accumulate to make up for a batch."""
        weight = instance.share.profile.weight / 1000
        return max(self._parts(instance)) * weights / weight

    def _parts(self, instance: SimulatedInstance) -> list[float]:
        """The next batch of an instance, as a part of each bound."""
        costs = instance.share.by_bound(instance.work.piece)
        bounds = instance.share.bounds
        return [cost / bound.capacity for cost, bound in zip(costs, bounds, strict=True)]

    def _fits(self, instance: SimulatedInstance) -> bool:
        return max(self._parts(instance)) <= 1
