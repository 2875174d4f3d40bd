"""A cluster under faults of servers, networks, processes and operators, at random from a seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

from limiters._instance_share import InstanceShare
from limiters.leases._bounds import terms_of_limits
from limiters.leases._coordinator import Coordinator, certainty
from limiters.leases._messages import BoundTerms, Kind, Reply, Request, Terms
from limiters.limits import Limits
from limiters.testing import (
    Backlog,
    Dear,
    Network,
    OnAndOff,
    SimulatedCluster,
    SimulatedInstance,
    SimulatedServer,
    Trickle,
    Work,
)
from limiters.testing._server import ServerSnapshot
from tests.simulation import quiet
from tests.simulation.judge import Allowance, Haste, Judgement, Limited, judge_bounds
from tests.simulation.liveness import Liveness
from tests.simulation.set_capacities import SetCapacities

SPANS = 14
"""For how many spans a storm goes on."""

PERIODS = (0.005, 0.05, 0.2, 1.0, 1.0, 1.0, 3.0, 10.0, 60.0, 600.0, 3600.0)
LEASES = (0.2, 0.25, 0.6, 1.0, 2.0, 2.0, 5.0, 30.0, 600.0, 3600.0)
MAX_RATIO = 15
"""How much longer one of period and lease may be: so that a storm takes a second."""

MAX_SPENDINGS = 8_000

SERVER_FAULTS = (
    "empty",
    "copy",
    "copy",
    "resync",
    "restart",
    "restart empty",
    "flush",
    "lose limit",
    "lose registry",
    "delete",
    "terms",
    "capacity",
    "capacity",
    "ramp",
    "evict",
    "step",
    "step",
    "step",
    "rate",
)


COPIES = frozenset({"copy", "restart", "split"})
"""Faults after which a server has a state of the past."""


class StormCluster(SimulatedCluster):
    """Notes who is asked."""

    storm: Weather

    def stray(self) -> SimulatedServer:
        return self.storm.stray()

    def serve(self, request: Request, addressed: SimulatedServer) -> Reply | None:
        if self.now < self.away_until:
            return None
        server = self.storm.reached(request, self._reached(addressed))
        if server is self.server:
            self.storm.before_answer(server, request)
        else:
            self.storm.touched.add(server.identity)
        reply = server.sync(request, self.now)
        if reply.kind is Kind.ANSWER and server is self.server:
            self._note_terms(reply)
        return reply


class Weather:
    """Instances that come, leave, crash, hang and are cut off; servers that are replaced, lose
    their state and step their clocks; operators who change terms, delete and evict.

    `faults` are those of servers and operators that may occur.
    """

    def __init__(
        self,
        seed: int,
        faults: Sequence[str] = SERVER_FAULTS,
        *,
        coordinator: type[Coordinator] = Coordinator,
        share: type[InstanceShare] = InstanceShare,
    ) -> None:
        random = self.random = Random(seed)
        period, lease = self._lengths()
        capacity = float(random.choice([10, 100, 1000, 5000]))
        parts = random.choice([1, 2, 3, 7, 20, 100])
        self.longest = 0.0
        """The seconds that a call may last before it is abandoned."""
        limits = self._limits(capacity, period)
        self.set = [SetCapacities(one.capacity, slots=one.slots) for one in self.limited]
        """The capacities that operators have set for each bound."""
        self.terms = terms_of_limits(limits, capacity / parts, round(lease * 1000))
        self.span = self.terms.span / 1000
        self.end = SPANS * self.span + min(10.0, 5 * self.span)
        pieces = min(random.choice([5, 10, 50, 200]), MAX_SPENDINGS * period / self.end)
        self.piece = capacity / max(2, pieces)
        self.interval = max(0.05, lease / random.choice([4, 5, 8]))
        self.cluster = StormCluster(
            capacity=limits,
            factor=self.terms.factor,
            seed=seed,
            period=period,
            lease_time=lease,
            interval=self.interval,
            drift=0.0009,
            latest_start=min(0.004, period / 5),
            max_operation_time=self.longest or math.inf,
            network=self._network(lease),
            default_span=self._default_span(),
            coordinator=coordinator,
            share=share,
        )
        self.cluster.storm = self
        self.cluster.tick = max(0.0005, period / 20)
        if random.random() < 0.5:
            self.cluster.server.lose_registry()
        self.cluster.listeners.append(self.heard)
        self.touched: set[str] = set()
        """Servers that were asked while they were not in charge."""
        self.faults = random.sample(faults, min(len(faults), random.randint(2, 6)))
        self.mean = self.span * random.choice([0.15, 0.4, 0.8])
        self.greedy = random.random() < 0.6
        self.oversized = random.choice([0.0, 0.1, 0.3])
        self.ambush = random.choice([0.0, 0.2])
        self.spans = [self.span]
        self.lags = [self.terms.lease / 1000]
        self.past: list[tuple[float, ServerSnapshot]] = []
        self.allowances: list[Allowance] = []
        self.hastes: list[Haste] = []
        self.returned_at: float | None = None
        self.left_at: dict[str, float] = {}
        self.happened: list[tuple[float, str]] = []
        self.made = 0
        self.over = False
        """Whether nothing fails any more."""
        self.liveness = Liveness(self.cluster)

    def _lengths(self) -> tuple[float, float]:
        random = self.random
        while True:
            period, lease = random.choice(PERIODS), random.choice(LEASES)
            if max(period / lease, lease / period) <= MAX_RATIO:
                return period, lease

    def _limits(self, capacity: float, period: float) -> Limits:
        """Return the shared limit; `limited` is the same for the judge."""
        self.limited = [Limited("", capacity, period)]
        return Limits.of(capacity, period)

    def _network(self, lease: float) -> Network:
        random = self.random
        loss = random.choice([0, 0.02, 0.2, 0.4])
        return Network(
            delay=random.choice([0.001, 0.01, lease / 50]),
            lost_requests=loss,
            lost_replies=loss,
            doubled=random.choice([0, 0.05]),
            late=random.choice([0, 0, 0.05, 0.25]),
            latest=3 * lease,
            astray=random.choice([0, 0, 0.05]),
        )

    def _default_span(self) -> float:
        return self.span

    def run(self) -> Judgement:
        """Judge every window, and every instance that waited."""
        cluster = self.cluster
        for _ in range(self.random.randint(1, 10)):
            self.come()
        cluster.at(self.span * self.random.random(), self.strike)
        if not COPIES.isdisjoint(self.faults):
            cluster.at(0.0, self.remember)
        self.liveness.start()
        cluster.run(self.end)
        found = self.judged()
        wrong = (*self.liveness.stalled, *quiet.missing(self))
        return replace(found, stalled=wrong, waits=self.liveness.waits)

    def calm(self) -> None:
        """End all faults: from now on nothing fails."""
        self.over, self.ambush = True, 0.0

    def judged(self) -> Judgement:
        """Every window of every bound, and the calls in flight."""
        cluster = self.cluster
        return judge_bounds(
            self.limited,
            cluster.calls,
            self.in_force(),
            cluster.windows,
            self.lag,
            self.allowances,
            self.hastes,
        )

    def in_force(self) -> list[list[tuple[float, float]]]:
        """The capacities of each bound that were in force, by the servers' answers: what operators
        have set may be lost, and come back. Never more than they ever set."""
        return [
            [(at, min(told, one.most(at))) for at, told in steps]
            for one, steps in zip(self.set, self.cluster.in_force, strict=True)
        ]

    @property
    def lag(self) -> float:
        """How long an instance that cannot be reached may follow older terms."""
        return max(self.lags) + 0.05

    # Instances.

    def come(self, terms: Terms | None = None) -> SimulatedInstance:
        """Add an instance with work of its own."""
        self.made += 1
        weight = self.random.choice([1, 1, 1, 3])
        return self.cluster.add(f"i{self.made}", self.work(), weight, terms or self.terms)

    def work(self) -> Work:
        """Return the work of one instance."""
        random, piece, period = self.random, self.piece, self.cluster.terms.period / 1000
        if random.random() < self.oversized:
            cost = self.terms.capacity * random.choice([0.3, 0.7, 1.0])
            return Dear(cost, self.span * random.random(), self.cluster.now)
        if self.greedy:
            return Backlog(piece)
        kinds: list[Work] = [
            Backlog(piece),
            Backlog(piece * random.choice([0.5, 1, 2])),
            OnAndOff(piece, self.span * random.random(), self.span * random.random()),
            Trickle(piece, self.terms.capacity / period * random.random() * 0.4),
        ]
        return random.choice(kinds)

    def odd_terms(self) -> Terms:
        """Return the terms of an instance whose configuration differs."""
        random, terms = self.random, self.terms
        factor = random.choice([0.5, 2, 3])
        lease = max(200, round(terms.lease * factor))
        longer, less = random.choice([1, factor]), random.choice([1, 0.5])
        return replace(
            terms, lease=lease, bounds=tuple(scaled(one, less, longer) for one in terms.bounds)
        )

    def heard(self, instance: SimulatedInstance, reply: Reply) -> None:
        """Notes which leases are out; some are cut off just when it matters."""
        if reply.kind is Kind.CHALLENGE and self.random.random() < self.ambush:
            self.cluster.cut_off(instance.name, 2 * self.span * self.random.random())
        if reply.kind is Kind.ANSWER and any(one.units for one in reply.bounds):
            self.note_terms(instance.share.terms)

    def note_terms(self, terms: Terms) -> None:
        """Leases of this length may be out; servers take it into account."""
        span = terms.span / 1000
        if span not in self.spans:
            self.spans.append(span)
            self.reckon_with(span)
        self.lags.append(terms.lease / 1000)
        self.lags = [max(self.lags)]

    def reckon_with(self, span: float) -> None:
        """The default span of each server covers the leases that are out: else it is X2."""
        cluster = self.cluster
        cluster.default_span = max(cluster.default_span, span)
        for server in cluster.servers:
            coordinator = server.coordinator
            coordinator.default_span = max(coordinator.default_span, terms_ms(span))

    # Faults.

    def strike(self, now: float) -> None:
        """One more misfortune, and when the next one comes."""
        if self.over:
            return
        random, cluster = self.random, self.cluster
        names = sorted(cluster.instances)
        name = random.choice(names) if names else ""
        lease = self.terms.lease / 1000
        event = random.random()
        if event < 0.5 or not name:
            self.server_fault(random.choice(self.faults))
        elif event < 0.6:
            if len(names) < 12:
                self.come(self.odd_terms() if random.random() < 0.25 else None)
        elif event < 0.66:
            cluster.kill(name)
            self.come()
        elif event < 0.69:
            cluster.leave(name)
            self.come()
        elif event < 0.77:
            cluster.hang(name, lease * random.choice([0.02, 0.3, 1.2, 4]))
        elif event < 0.87:
            cut = lease * random.choice([0.2, 1.2, 4])
            cluster.cut_off(name, cut, replies_only=random.random() < 0.4)
        elif event < 0.92 and self.ambush:
            # Silent until just after it was given up; then the server loses its memory.
            cut = self.span + random.uniform(-0.02 * lease, self.interval)
            cluster.cut_off(name, cut, replies_only=random.random() < 0.5)
            fault = random.choice(self.faults)
            at = now + cut - random.uniform(0, self.interval / 2)
            cluster.at(at, lambda then: self.server_fault(fault))
        elif event < 0.95:
            cluster.stop_serving(lease * random.choice([0.2, 1, 4]))
        else:
            cluster.instances[name].work = self.work()
        if not cluster.instances:
            self.come()
        cluster.at(now + self._pause(), self.strike)

    def _pause(self) -> float:
        """Mostly at random, sometimes just when the server becomes certain again."""
        random, server = self.random, self.cluster.server
        pause = random.expovariate(1 / self.mean)
        limit = server.coordinator.limit
        if limit is not None and random.random() < 0.4:
            left = certainty.end(limit, server.coordinator.default_span) - limit.now
            pause = left / 1000 + self.span * random.choice([-0.01, 0.002, 0.01, 0.1])
        return pause if 0 < pause < 3 * self.span else self.mean

    def changed(self, factor: float) -> list[float]:
        """The capacities that an operator sets, by a factor of those that were configured; 0 for
        one that stays."""
        return [self.terms.capacity * factor]

    def change_capacity(self, *, ramp: bool) -> None:
        """An operator sets the capacity of some bounds."""
        random, cluster = self.random, self.cluster
        capacities = self.changed(random.choice([0.1, 0.5, 0.95, 1, 1, 1.05, 2, 5]))
        part = random.choice([0.3, 1, 3]) / self.span
        rates = [one * part if ramp else 0.0 for one in capacities]
        if cluster.set_capacity(capacities, rates):
            for known, capacity, rate in zip(self.set, capacities, rates, strict=True):
                if capacity:
                    known.set(cluster.now, capacity, rate)

    def server_fault(self, fault: str) -> None:
        """A fault of the server in charge, or a change by an operator."""
        random, cluster, server = self.random, self.cluster, self.cluster.server
        self.happened.append((cluster.now, fault))
        if fault in ("empty", "restart empty"):
            self.switch(cluster.new_server())
        elif fault in ("copy", "restart"):
            age = self.span * (0.3 if fault == "restart" else random.choice([0, 0.01, 0.3, 3]))
            other = cluster.new_server()
            other.load(self.snapshot_before(cluster.now - age))
            self.switch(other)
        elif fault == "resync":  # an earlier server, whose data are replaced by the present ones
            earlier = random.choice(cluster.servers)
            limit = server.coordinator.limit
            if earlier is not server and limit is not None and limit.server != earlier.identity:
                earlier.load(server.snapshot())
                self.switch(earlier)
        elif fault == "flush":
            server.flush()
        elif fault == "lose limit":
            server.lose_limit()
        elif fault == "lose registry":
            server.lose_registry()
        elif fault == "delete":
            server.delete(cluster.now)
        elif fault == "terms":
            self.change_terms()
        elif fault in ("capacity", "ramp"):
            self.change_capacity(ramp=fault == "ramp")
        elif fault == "evict":
            server.evict(random.choice(sorted(cluster.instances) or [""]))
        elif fault == "step":
            self.step(server)
        elif fault == "rate":
            server.run_at(1 + 0.0009 * random.uniform(-1, 1), cluster.now)
        elif fault == "return":
            self.switch(random.choice(cluster.servers), returns=True)
        elif fault == "other":
            self.switch(cluster.new_server(vouches=True), returns=True)
        else:
            raise AssertionError(fault)

    def step(self, server: SimulatedServer) -> None:
        """Sets a server's clock, always in the same direction and by more than X4 names."""
        way = 1 if int(server.identity.rsplit("-", 1)[1]) % 2 else -1
        by = self.random.choice([0.3, 3, 60, 3600]) * self.interval + 2 * max(self.intervals)
        server.step(way * by)

    @property
    def intervals(self) -> list[float]:
        """The sync intervals that are known."""
        return [self.interval]

    def switch(self, server: SimulatedServer, *, returns: bool = False) -> None:
        """Another server is in charge."""
        cluster = self.cluster
        if server is cluster.server:
            return
        self.left_at[cluster.server.identity] = cluster.now
        self.past = []
        cluster.switch(server)
        if returns:
            self.returned_at = cluster.now

    def before_answer(self, server: SimulatedServer, request: Request) -> None:
        """A server that believes that it was in charge all the time may grant its free amounts a
        second time: exception X1."""
        if self.returned_at is None:
            return
        self.returned_at, cluster = None, self.cluster
        left = self.left_at.get(server.identity, cluster.now)
        hidden = cluster.now - left <= 2 * self.interval or server.identity in self.touched
        limit, held = server.coordinator.limit, [0.0] * len(self.limited)
        if limit is not None and not hidden:
            kept = [
                one for one in limit.records.values() if certainty.gone_at(limit, one) > limit.now
            ]
            held = [
                sum(one.holdings[at].units for one in kept) / bound.whole
                for at, bound in enumerate(limit.bounds)
            ]
        end = cluster.now + max(self.spans) + self.lag
        self.allowances += [
            Allowance(cluster.now, end, 1 - part, at) for at, part in enumerate(held)
        ]

    def reached(self, request: Request, server: SimulatedServer) -> SimulatedServer:
        """The server that serves a request which has come to this one."""
        return server

    def stray(self) -> SimulatedServer:
        """Where a request goes astray. If it is a server that was in charge before, that is a
        return for one request: exception X1."""
        cluster = self.cluster
        if "return" not in self.faults:
            return cluster.new_server()
        server = self.random.choice([*cluster.servers, cluster.new_server()])
        if server in cluster.servers and server is not cluster.server:
            end = cluster.now + max(self.spans) + self.lag
            self.allowances.append(Allowance(cluster.now, end, 1.0))
        return server

    def change_terms(self) -> None:
        """An operator sets another lease or period; most processes are deployed again."""
        random, cluster, terms = self.random, self.cluster, self.terms
        lease = max(200, round(terms.lease * random.choice([0.5, 1, 2])))
        factor = random.choice([0.5, 1, 2])
        bounds = tuple(scaled(one, 1, factor) for one in terms.bounds)
        self.terms = replace(terms, lease=lease, bounds=bounds)
        cluster.set_terms(lease_time=lease / 1000, period=[one.period / 1000 for one in bounds])
        self.note_terms(self.terms)
        self.reckon_with(self.terms.span / 1000)
        for name in sorted(cluster.instances):
            if random.random() < 0.6:
                at = cluster.now + self.span * random.random()
                cluster.at(at, partial(self._renew_at, name))

    def _renew_at(self, name: str, now: float) -> None:
        """A process is replaced by one with the present configuration."""
        if name in self.cluster.instances and not self.over:
            self.cluster.kill(name)
            self.come()

    def remember(self, now: float) -> None:
        """Keeps the state of the server in charge, for failovers to older states."""
        self.past = [*self.past[-15:], (now, self.cluster.server.snapshot())]
        self.cluster.at(now + self.span / 6, self.remember)

    def snapshot_before(self, at: float) -> ServerSnapshot:
        """The newest state that is not newer than this."""
        if at >= self.cluster.now:
            return self.cluster.server.snapshot()
        known = [snapshot for when, snapshot in self.past if when <= at]
        return known[-1] if known else ServerSnapshot(None, None)


class Changes(Weather):
    """All can be reached: capacity and demand change, instances come and leave."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ("capacity", "capacity", "ramp"))
        self.ambush = 0.0

    def _network(self, lease: float) -> Network:
        return Network(delay=self.random.choice([0.001, min(0.01, lease / 50)]))

    @property
    def lag(self) -> float:
        """Two sync intervals, and the way there and back."""
        return 2 * self.interval + 0.1

    def in_force(self) -> list[list[tuple[float, float]]]:
        """By what operators have set, as all is in force that they set."""
        return [one.steps() for one in self.set]

    def strike(self, now: float) -> None:
        """Plan another change of an operator."""
        if self.over:
            return
        random, cluster = self.random, self.cluster
        names = sorted(cluster.instances)
        event = random.random()
        if event < 0.5:
            self.server_fault(random.choice(self.faults))
        elif event < 0.65:
            if len(names) < 12:
                self.come()
        elif event < 0.75 and len(names) > 1:
            cluster.leave(random.choice(names))
        elif names:
            cluster.instances[random.choice(names)].work = self.work()
        cluster.at(now + random.expovariate(1 / self.mean), self.strike)


def terms_ms(seconds: float) -> int:
    """Return seconds as a whole number of milliseconds."""
    return round(seconds * 1000)


def scaled(bound: BoundTerms, capacity: float, period: float) -> BoundTerms:
    """The terms of a bound times these; calls in flight are as many, and take as long."""
    if bound.slots:
        return bound
    longer = bound.with_period(max(1, round(bound.period * period)))
    return replace(longer, capacity=bound.capacity * capacity)
