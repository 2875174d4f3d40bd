"""A cluster in virtual time: the rules of production without threads and servers, with any fault.

Instances run `InstanceShare`, and each server runs a `Coordinator`, as in production. The network
between them loses messages. Tests can kill, hang and cut off instances, replace servers and step
their clocks. A run with the same seed is the same.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from random import Random

from limiters._instance_share import InstanceShare
from limiters.leases._bounds import terms_of_limits
from limiters.leases._coordinator import Coordinator
from limiters.leases._format import DEFAULT_SPAN
from limiters.leases._messages import Kind, Reply, Request, Terms
from limiters.limits import BoundKind, Limits
from limiters.testing._instance import Call, SimulatedInstance
from limiters.testing._server import ServerSnapshot, SimulatedServer
from limiters.testing.network import Network
from limiters.testing.work import Work
from limiters.verifier import Spent

TICKS = 100
"""How often in a period an instance checks its work."""

TIMEOUT = 0.4
"""The longest wait for a reply in seconds; half a lease if that is shorter."""


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
        capacity: float | Limits,
        factor: float,
        seed: int,
        period: float = 1.0,
        lease_time: float = 2.0,
        interval: float = 0.5,
        drift: float = 0.0,
        latest_start: float = 0.004,
        max_operation_time: float = math.inf,
        network: Network | None = None,
        default_span: float = DEFAULT_SPAN / 1000,
        share: type[InstanceShare] = InstanceShare,
        coordinator: type[Coordinator] = Coordinator,
    ) -> None:
        self.random = Random(seed)
        self.limit = Limits.of(capacity, period)
        """The shared limit at the beginning."""
        self.terms = terms_of_limits(self.limit, factor, round(lease_time * 1000))
        self.interval = interval
        self.drift = drift
        """The largest relative error of the rates of clocks."""
        self.latest_start = latest_start
        self.max_operation_time = max_operation_time
        """Seconds after which a call is abandoned, as a Batcher does. The call runs on."""
        self.network = network or Network()
        self.timeout = TIMEOUT
        rates = [one.period for one in self.limit.bounds if one.kind is BoundKind.RATE]
        self.tick = max(0.0005, min(rates, default=interval) / TICKS)
        self.default_span = default_span
        self.share = share
        self.coordinator = coordinator
        self.log: list[Spent] = []
        self.calls: list[Call] = []
        """All calls that began, with their ends."""
        self.in_force: list[list[tuple[float, float]]] = [
            [(0.0, one.capacity)] for one in self.limit.bounds
        ]
        """The capacities of each bound that were in force, as `verify` takes them."""
        self.windows: list[list[tuple[float, float]]] = [
            [(0.0, one.period)] for one in self.limit.bounds
        ]
        """The periods of each bound that were in force."""
        self.now = 0.0
        self.instances: dict[str, SimulatedInstance] = {}
        self.away_until = -math.inf
        self.listeners: list[Callable[[SimulatedInstance, Reply], None]] = []
        """Called with each reply that reaches an instance."""
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count()
        self._starts = itertools.count(1)
        self.servers: list[SimulatedServer] = []
        """All servers that were ever in charge."""
        self.server = self.new_server(vouches=True)
        self.servers.append(self.server)

    @property
    def limits(self) -> list[tuple[float, float]]:
        """The capacities of the first bound that were in force."""
        return self.in_force[0]

    @property
    def periods(self) -> list[tuple[float, float]]:
        """The periods of the first bound that were in force."""
        return self.windows[0]

    def spent(self, name: str, start: float, end: float) -> float:
        """Return the cost that an instance spent in [start, end)."""
        return sum(e.cost for e in self.log if e.instance == name and start <= e.at < end)

    def at(self, when: float, do: Callable[[float], None]) -> None:
        """Call `do(now)` at that time."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), do))

    def run(self, until: float) -> None:
        """Run all events up to the virtual time `until`, in seconds."""
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heapq.heappop(self._events)
            do(self.now)
        self.now = until

    def add(
        self, name: str, work: Work, weight: float = 1.0, terms: Terms | None = None
    ) -> SimulatedInstance:
        """Add an instance that starts now, with its own `terms` if given."""
        instance = SimulatedInstance(self, name, work, weight, terms or self.terms)
        self.instances[name] = instance
        self.at(self.now, instance.start)
        return instance

    def serve(self, request: Request, addressed: SimulatedServer) -> Reply | None:
        """Return the reply to a request that arrives now; None if the server is away."""
        if self.now < self.away_until:
            return None
        server = self._reached(addressed)
        reply = server.sync(request, self.now)
        if reply.kind is Kind.ANSWER and server is self.server:
            self._note_terms(reply)
        return reply

    def _reached(self, addressed: SimulatedServer) -> SimulatedServer:
        """Return the server in charge, or the one to which a message was sent before the last
        change."""
        if self.network.astray and self.random.random() < self.network.astray:
            return self.stray()
        if addressed is self.server:
            return addressed
        return self.random.choice([addressed, self.server])

    def stray(self) -> SimulatedServer:
        """Return a server that was never in charge, for a request that goes astray."""
        return self.new_server()

    def _note_terms(self, reply: Reply) -> None:
        self._note([(one.in_force, one.period) for one in reply.terms.bounds])

    def _note(self, terms: Iterable[tuple[float, int]]) -> None:
        notes = zip(self.in_force, self.windows, terms, strict=True)
        for capacities, periods, (capacity, period) in notes:
            if capacities[-1][1] != capacity:
                capacities.append((self.now, capacity))
            if periods[-1][1] != period / 1000:
                periods.append((self.now, period / 1000))

    def heard(self, instance: SimulatedInstance, reply: Reply) -> None:
        """Call the listeners, since an instance has received a reply."""
        for listener in self.listeners:
            listener(instance, reply)

    # Faults of instances.

    def kill(self, name: str) -> None:
        """Kill an instance: it does nothing any more."""
        self.instances.pop(name).alive = False

    def leave(self, name: str) -> None:
        """Stop an instance gracefully: it returns all capacity."""
        self.instances[name].leave(self.now)

    def hang(self, name: str, seconds: float) -> None:
        """Let an instance hang for some seconds, and then continue."""
        instance = self.instances[name]
        instance.hangs_until = max(instance.hangs_until, self.now + seconds)

    def cut_off(self, name: str, seconds: float, *, replies_only: bool = False) -> None:
        """Let no reply reach an instance; without `replies_only`, its requests are not served
        either."""
        instance = self.instances[name]
        instance.deaf_until = self.now + seconds
        if not replies_only:
            instance.cut_until = self.now + seconds

    # Faults of servers.

    def new_server(self, *, vouches: bool = False) -> SimulatedServer:
        """Return another server, which is not in charge. Its clock shows another time."""
        coordinator = self.coordinator(default_span=math.ceil(self.default_span * 1000))
        return SimulatedServer(
            f"server-{next(self._starts)}",
            coordinator,
            offset=self.random.uniform(1e3, 1e9),
            rate=1 + self.drift * self.random.uniform(-1, 1),
            vouches=vouches,
        )

    def switch(self, server: SimulatedServer) -> None:
        """Put `server` in charge. Messages that were sent before may still reach the old one."""
        self.server = server
        if server not in self.servers:
            self.servers.append(server)

    def stop_serving(self, seconds: float) -> None:
        """Make the server unreachable for some seconds. It keeps its state."""
        self.away_until = self.now + seconds

    def forget(self) -> None:
        """Restart the server without its state."""
        self.switch(self.new_server())

    def snapshot(self) -> ServerSnapshot:
        """Return the state of the server in charge, for `fail_over`."""
        return self.server.snapshot()

    def fail_over(self, to: ServerSnapshot) -> None:
        """Let another server take over, with a state that may be old."""
        server = self.new_server()
        server.load(to)
        self.switch(server)

    # Operators.

    def set_capacity(
        self,
        capacity: float | Sequence[float],
        ramp: float | Sequence[float] | None = None,
    ) -> bool:
        """Change the capacity for all instances, as an operator does: of all bounds, in order; 0
        changes nothing. A raised capacity rises by at most `ramp` a second. False if there is no
        limit."""
        return self.set_terms(capacity=capacity, ramp=ramp)

    def set_terms(
        self,
        *,
        capacity: float | Sequence[float] | None = None,
        period: float | Sequence[float] | None = None,
        lease_time: float | None = None,
        ramp: float | Sequence[float] | None = None,
    ) -> bool:
        """Change the terms for all instances, as an operator does; None changes nothing. Capacities
        and periods are those of all bounds, in order. False if there is no limit."""
        changed = self.server.set_terms(
            self.now,
            capacity=capacity,
            period=period,
            lease_time=lease_time,
            ramp=ramp,
            layout=self.terms.layout,
        )
        limit = self.server.coordinator.limit
        if changed and limit is not None:
            self._note((one.in_force(limit.now), one.terms.period) for one in limit.bounds)
        return changed
