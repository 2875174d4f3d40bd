"""Storms in which one of the exceptions that the docs name happens again and again: X2, X3 and X4.

Each is judged against the bound of its exception, and counts the windows that needed it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial

from limiters.leases._messages import Request, Terms
from limiters.testing import SimulatedServer
from tests.simulation.judge import Allowance, Haste
from tests.simulation.weather import Weather


class ShorterFirst(Weather):
    """X2: the server forgets, holders are cut off, and newcomers with a shorter lease come first.

    The span of an uncertain server is then that of the newcomers: what the holders have may be
    granted once more, until their lease has ended and its spending no longer counts. A holder that
    comes back just before claims it all the same; an instance that was granted it in between may be
    cut off just then, and goes on until the end of its own lease.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ("empty", "restart empty", "flush", "lose limit", "capacity"))
        factor = self.random.choice([0.1, 0.3, 0.7])
        lease = max(200, round(self.terms.lease * factor))
        self.short = replace(self.terms, lease=lease)
        self.mean = self.span * self.random.choice([0.4, 0.8, 1.5])
        self.shorter_comes = False

    def _lengths(self) -> tuple[float, float]:
        while True:
            period, lease = super()._lengths()
            if lease >= period:
                return period, lease

    def _default_span(self) -> float:
        return self.span * self.random.choice([0.0, 0.2, 0.5])

    def reckon_with(self, span: float) -> None:
        """No default span covers what is out."""

    def odd_terms(self) -> Terms:
        """Return the terms of a newcomer whose lease is shorter."""
        return self.short

    def server_fault(self, fault: str) -> None:
        """Instances are cut off when a server forgets, and a newcomer is there; the next time those
        with a shorter lease are killed."""
        cluster, random = self.cluster, self.random
        super().server_fault(fault)
        if fault == "capacity":
            return
        first = max(self.short.span / 1000, cluster.default_span)
        end = cluster.now + max(self.spans) + self.short.lease / 1000
        self.allowances.append(Allowance(cluster.now + first, end, 1.0))
        self.shorter_comes = not self.shorter_comes
        if self.shorter_comes:
            most = random.choice([0.7, 1.0, 1.0])
            for name in sorted(cluster.instances):
                if random.random() < most:
                    cluster.cut_off(name, self.span * random.uniform(0.3, 1.2))
            self.come(self.short)
            return
        for name, instance in sorted(cluster.instances.items()):
            if instance.share.terms.lease == self.short.lease:
                cluster.kill(name)
                self.come()


class SplitBrain(Weather):
    """X3: two servers are in charge at the same time; each has its clients, and some change sides.

    Up to everything may be granted twice until the last client has left the old server, and a lease
    and its spending are over.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ("split", "split", "split", "flush", "step", "evict"))
        self.old: SimulatedServer | None = None
        self.stayed: set[str] = set()
        """Instances that still ask the old server."""

    def server_fault(self, fault: str) -> None:
        if fault != "split":
            super().server_fault(fault)
        elif self.old is None:
            self.split()

    def split(self) -> None:
        """A replica takes over, and the old server goes on."""
        cluster, random = self.cluster, self.random
        self.old, other = cluster.server, cluster.new_server()
        age = self.span * random.choice([0, 0, 0.01, 0.3, 3])
        other.load(self.snapshot_before(cluster.now - age))
        self.switch(other)
        self.stayed = {name for name in sorted(cluster.instances) if random.random() < 0.6}
        end = cluster.now + self.span * random.choice([0.1, 0.5, 2])
        for name in sorted(self.stayed):
            at = random.uniform(cluster.now, end)
            cluster.at(at, partial(self.move, name))
            if random.random() < 0.2:
                cluster.at(random.uniform(at, end), partial(self.move, name))
        cluster.at(end, self.heal)
        self.allowances.append(Allowance(cluster.now, end + max(self.spans), 1.0))

    def move(self, name: str, now: float) -> None:
        """An instance changes sides, as long as there are two."""
        if self.old is not None:
            self.stayed ^= {name}

    def calm(self) -> None:
        """The servers agree, too."""
        super().calm()
        self.heal(self.cluster.now)

    def heal(self, now: float) -> None:
        """The last client leaves the old server."""
        self.old = None
        self.stayed.clear()

    def reached(self, request: Request, server: SimulatedServer) -> SimulatedServer:
        """The instances that stayed are served by the old server."""
        stays = request.instance in self.stayed
        return self.old if stays and self.old is not None else server


class SmallSteps(Weather):
    """X4: steps of the server's clock that look like a delay.

    One below the tolerance is believed; so is one below two sync intervals if the first to call
    after it is new to this server, or if as much time was not believed within a span before. What
    is granted after it comes so much too early: shorter windows hold.
    """

    TOLERANCE = 0.02
    """Seconds; or half of the smallest round trip of an instance, if that is longer."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ())
        self.faults = ["small step", "small step", "small step", "capacity"]
        self.mean = self.span * self.random.choice([0.1, 0.3, 0.8])
        self.greedy = self.random.random() < 0.2  # work that comes and goes makes shares move
        self.oversized = self.random.choice([0.1, 0.3, 0.6])
        self.stepped = 0.0
        """The seconds by which the clock was stepped since the last request."""
        self.served = 0.0
        self.lost: deque[tuple[float, float]] = deque()
        """(when, how much) time was not believed."""

    def _lengths(self) -> tuple[float, float]:
        while True:  # of a period that is shorter than a step nothing would be left to judge
            period, lease = super()._lengths()
            if period >= max(lease, 0.5):
                return period, lease

    def server_fault(self, fault: str) -> None:
        if fault != "small step":
            super().server_fault(fault)
            return
        random, interval = self.random, self.interval
        tiny, small = random.uniform(0, self.TOLERANCE), 2 * interval * random.random()
        by = random.choice([tiny, small, -small, -tiny])
        self.cluster.server.step(by)
        self.stepped += by
        if random.random() < 0.5:
            self.come()
            if len(self.cluster.instances) > 8:
                self.cluster.kill(sorted(self.cluster.instances)[0])

    def before_answer(self, server: SimulatedServer, request: Request) -> None:
        """The first request after a step decides whether it is believed."""
        now, by = self.cluster.now, self.stepped
        since, self.served, self.stepped = now - self.served, now, 0.0
        if not by:
            return
        lost = sum(one for at, one in self.lost if at >= now - max(self.spans))
        known = request.confirmed >= 0 and request.server == server.identity
        trip = min(self.cluster.timeout, self.terms.lease / 2000)
        most = max(self.TOLERANCE, trip / 2) + lost if known else 2 * self.interval
        early = min(by, most)
        if early > 0:
            # As long as something may be out that was stamped, or renewed, before.
            self.hastes.append(Haste(now, now + max(self.spans) + 2 * self.interval, early))
        if by < 0 or known:
            self.lost.append((now, since))
