"""A cluster in virtual time: the real rules, no threads, no server, every fault at will.

Instances run `Holdings`, the coordinator is a `Coordinator`, as in production. Between them is
a network that loses things; above them somebody who kills, hangs and cuts off instances, and
makes the coordinator forget. A seed gives the same run again.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

from limiters.float_error import covers
from limiters.holdings import Holdings
from limiters.leases.coordinator import Coordinator
from limiters.leases.messages import Reply, Request, Terms
from limiters.testing.network import Network
from limiters.testing.work import Work
from limiters.verifier import Spent

TICK = 0.01
"""How often an instance that waits for budget looks again, at least."""

TIMEOUT = 0.4
"""How long a reply is waited for."""


class SimulatedInstance:
    """One process: its own clock, its own work."""

    def __init__(self, cluster: SimulatedCluster, name: str, work: Work, weight: float) -> None:
        self.cluster = cluster
        self.name = name
        self.work = work
        self.rate = 1 + cluster.drift * cluster.random.uniform(-1, 1)
        self.offset = cluster.random.uniform(0, 1000)
        self.holdings = cluster.holdings(
            name, cluster.terms, interval=cluster.interval, weight=weight
        )
        self.alive = True
        self.calls = 0
        self.hangs_until = -math.inf
        self.cut_until = -math.inf
        self._attempt = 0
        self._sent_at = 0.0
        self._waking = math.inf
        self._spending = math.inf

    def local(self, now: float) -> float:
        """What its own clock says."""
        return self.offset + now * self.rate

    def start(self, now: float) -> None:
        """Begins to ask and to spend."""
        self._tick(now)

    def _at(self, local: float, now: float) -> float:
        return max(now, (local - self.offset) / self.rate)

    def _later(self, at: float, do: Callable[[float], None]) -> None:
        def when_awake(now: float) -> None:
            if not self.alive:
                return
            if now < self.hangs_until:
                self.cluster.at(self.hangs_until, when_awake)
            else:
                do(now)

        self.cluster.at(at, when_awake)

    # Spending.

    def _tick(self, now: float) -> None:
        self._spending = math.inf
        self._spend(now)
        self._look_at_calls(now)
        if self.work.waiting(now):
            local = self.local(now)
            ready = self.holdings.ledger.ready_at(self.work.piece, local)
            self._spend_at(min(max(self._at(ready, now), now + 0.0005), now + 5 * TICK), now)
        else:
            self._spend_at(now + TICK, now)

    def _spend_at(self, at: float, now: float) -> None:
        if at < self._spending:
            self._spending = at
            self._later(at, lambda then: self._tick(then) if self._spending == at else None)

    def _spend(self, now: float) -> None:
        local = self.local(now)
        holdings = self.holdings
        worth = holdings.settle(local)
        while (waiting := self.work.waiting(now)) > 0:
            piece = self.work.piece
            dear = piece > holdings.burst(local)
            free = holdings.ledger.available(local, piece if dear else 0.0)
            if not (covers(free, piece) and covers(worth, piece)):
                holdings.want(min(waiting, 1e12), piece if dear else 0.0, local)
                return
            self._raise(piece, now)
            holdings.want(min(waiting, 1e12), 0.0, local)  # the next one has not waited yet
        holdings.want(0.0, 0.0, local)

    def _raise(self, piece: float, now: float) -> None:
        self.holdings.ledger.hold(piece)
        spend = self.holdings.ledger.charge(piece, self.local(now), self.holdings.tenure)
        self.work.went(piece, now)
        late = self.cluster.random.uniform(0, self.cluster.latest_start)

        def begin(then: float) -> None:
            if spend.started(self.local(then)):
                self.cluster.log.append(Spent(then, self.name, piece))

        self._later(now + late, begin)

    # Asking.

    def _look_at_calls(self, now: float) -> None:
        due = self.holdings.next_call(self.local(now))
        if self._attempt % 2 or due == math.inf:
            return  # one is under way
        at = self._at(due, now)
        if at < self._waking:
            self._waking = at
            self._later(at, lambda then: self._wake(then) if self._waking == at else None)

    def _wake(self, now: float) -> None:
        self._waking = math.inf
        if self._attempt % 2:
            return
        if self.holdings.next_call(self.local(now)) > self.local(now) + 1e-9:
            self._look_at_calls(now)
            return
        self.calls += 1
        self._attempt += 1
        attempt = self._attempt
        self._sent_at = self.local(now)
        request = self.holdings.compose(self._sent_at)
        network, random = self.cluster.network, self.cluster.random
        arrives = now + network.one_way(random)
        if random.random() >= network.lost_requests and now >= self.cut_until:
            self.cluster.at(arrives, lambda then: self._serve(request, attempt, then))
        if random.random() < network.doubled:
            late = now + random.uniform(0, network.latest)
            self.cluster.at(late, lambda then: self._serve(request, -1, then))
        self._later(now + TIMEOUT, lambda then: self._give_up(attempt, then))

    def _serve(self, request: Request, attempt: int, now: float) -> None:
        reply = self.cluster.serve(request, now)
        network, random = self.cluster.network, self.cluster.random
        if reply is None or now < self.cut_until or random.random() < network.lost_replies:
            return
        arrives = now + network.one_way(random)
        self._later(arrives, lambda then: self._receive(reply, attempt, then))

    def _receive(self, reply: Reply, attempt: int, now: float) -> None:
        if attempt == self._attempt:
            self._attempt += 1
            news = self.holdings.answered(reply, self._sent_at, self.local(now))
            assert not news.disowned
            self._tick(now)

    def _give_up(self, attempt: int, now: float) -> None:
        if attempt == self._attempt:
            self._attempt += 1
            self.holdings.unanswered(self.local(now))
            self._look_at_calls(now)


class SimulatedCluster:
    """Instances that share one limit, in virtual time.

    >>> from limiters.testing import Backlog, SimulatedCluster
    >>> from limiters.verifier import verify
    >>> cluster = SimulatedCluster(capacity=20_000, factor=1_000, seed=1)
    >>> for name in ("a", "b", "c"):
    ...     _ = cluster.add(name, Backlog(piece=100))
    >>> cluster.run(until=20)
    >>> verify(cluster.log, 20_000).holds
    True
    """

    def __init__(
        self,
        *,
        capacity: float,
        factor: float,
        seed: int,
        period: float = 1.0,
        lease_time: float = 2.0,
        interval: float = 0.5,
        drift: float = 0.0,
        latest_start: float = 0.004,
        network: Network | None = None,
        holdings: type[Holdings] = Holdings,
        coordinator: type[Coordinator] = Coordinator,
    ) -> None:
        self.random = Random(seed)
        self.terms = Terms(capacity, factor, int(period * 1000), int(lease_time * 1000))
        self.interval = interval
        self.drift = drift
        """The share by which clocks may run fast or slow."""
        self.latest_start = latest_start
        self.network = network or Network()
        self.holdings = holdings
        self.coordinator = coordinator()
        self.log: list[Spent] = []
        self.limits: list[tuple[float, float]] = [(0.0, capacity)]
        """The capacities that were in force, as `verify` takes them."""
        self.now = 0.0
        self.instances: dict[str, SimulatedInstance] = {}
        self.away_until = -math.inf
        self._server = 0
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count()

    def spent(self, name: str, start: float, end: float) -> float:
        """What an instance has spent in [start, end)."""
        return sum(e.cost for e in self.log if e.instance == name and start <= e.at < end)

    def at(self, when: float, do: Callable[[float], None]) -> None:
        """Has `do(now)` called at that time."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), do))

    def run(self, until: float) -> None:
        """Turns the time."""
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heapq.heappop(self._events)
            do(self.now)
        self.now = until

    def add(self, name: str, work: Work, weight: float = 1.0) -> SimulatedInstance:
        """One more instance, from now on."""
        instance = SimulatedInstance(self, name, work, weight)
        self.instances[name] = instance
        self.at(self.now, instance.start)
        return instance

    def serve(self, request: Request, now: float) -> Reply | None:
        """The coordinator's answer, unless it is away."""
        if now < self.away_until:
            return None
        reply = self.coordinator.sync(request, self.server_ms(now), str(self._server))
        if self.coordinator.capacity != self.limits[-1][1]:
            self.limits.append((now, self.coordinator.capacity))
        return reply

    def server_ms(self, now: float) -> int:
        """What the server's clock says."""
        return 1_000_000 + math.floor(now * 1000)

    # Faults.

    def kill(self, name: str) -> None:
        """It does nothing any more."""
        self.instances.pop(name).alive = False

    def hang(self, name: str, seconds: float) -> None:
        """It does nothing for a while, and then goes on as if nothing had been."""
        self.instances[name].hangs_until = self.now + seconds

    def cut_off(self, name: str, seconds: float) -> None:
        """Nothing of it reaches the coordinator, nor the other way round."""
        self.instances[name].cut_until = self.now + seconds

    def stop_serving(self, seconds: float) -> None:
        """The coordinator is away, and comes back with its state."""
        self.away_until = self.now + seconds

    def set_capacity(self, capacity: float, ramp: float | None = None) -> None:
        """Changes the limit for all, as an operator does; a raise by `ramp` a second."""
        terms = replace(self.coordinator.terms or self.terms, capacity=capacity)
        per_ms = None if ramp is None else ramp / 1000
        now_ms = self.server_ms(self.now)
        self.coordinator.set_capacity(terms, now_ms, str(self._server), per_ms)

    def forget(self) -> None:
        """The coordinator is restarted and knows nothing."""
        self._server += 1
        self.coordinator.forget()

    def snapshot(self) -> Coordinator:
        """The state of the coordinator, for `fail_over`."""
        return copy.deepcopy(self.coordinator)

    def fail_over(self, to: Coordinator) -> None:
        """Another server takes over, with a state that may be old."""
        self._server += 1
        self.coordinator = to
