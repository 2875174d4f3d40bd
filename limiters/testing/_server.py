"""A server in virtual time: a process with an identity and a clock, and what it stores."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.state import Limit, Registry
from limiters.leases._format import NEVER
from limiters.leases._layout import parts_of
from limiters.leases._messages import Reply, Request
from limiters.leases._terms_change import BoundChange, LimitChange


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """The stored state of a server, as a replica or a file has it."""

    limit: Limit | None
    registry: Registry | None


class SimulatedServer:
    """One server process. Its clock is independent of those of other servers.

    * `identity`: new at each start of the process.
    * `offset`: by how many seconds its clock is ahead, and `rate`: how fast it runs.
    * `vouches`: whether the process that started it guarantees that it is empty and new, so that a
      new limit need not wait (law C12).
    """

    def __init__(
        self,
        identity: str,
        coordinator: Coordinator,
        *,
        offset: float = 1000.0,
        rate: float = 1.0,
        vouches: bool = False,
    ) -> None:
        self.identity = identity
        self.coordinator = coordinator
        self._offset = offset
        self._rate = rate
        self._since = 0.0
        self._operations = 0
        if vouches:
            coordinator.registry = Registry(identity, NEVER)

    def clock(self, now: float) -> int:
        """Return the time of its clock, in milliseconds."""
        return math.floor((self._offset + (now - self._since) * self._rate) * 1000)

    def step(self, seconds: float) -> None:
        """Set its clock forward, or back."""
        self._offset += seconds

    def run_at(self, rate: float, now: float) -> None:
        """Set the rate of its clock from now on."""
        self._offset += (now - self._since) * self._rate
        self._since, self._rate = now, rate

    def sync(self, request: Request, now: float) -> Reply:
        """Return the coordinator's reply at the time `now`."""
        return self.coordinator.sync(request, self.identity, self.clock(now))

    # Stored state.

    def snapshot(self) -> ServerSnapshot:
        """Return a copy of everything that is stored."""
        return ServerSnapshot(*copy.deepcopy((self.coordinator.limit, self.coordinator.registry)))

    def load(self, snapshot: ServerSnapshot) -> None:
        """Replace everything that is stored, as a failover to an older copy does."""
        limit, registry = copy.deepcopy((snapshot.limit, snapshot.registry))
        self.coordinator.limit, self.coordinator.registry = limit, registry

    def flush(self) -> None:
        """Remove everything that is stored."""
        self.load(ServerSnapshot(None, None))

    def lose_limit(self) -> None:
        """Lose the limit, and keep the registry."""
        self.coordinator.limit = None

    def lose_registry(self) -> None:
        """Lose the registry, and keep the limit."""
        self.coordinator.registry = None

    # Operators.

    def set_terms(
        self,
        now: float,
        *,
        capacity: float | Sequence[float] | None = None,
        period: float | Sequence[float] | None = None,
        lease_time: float | None = None,
        ramp: float | Sequence[float] | None = None,
        layout: str = "",
    ) -> bool:
        """Change the limit for all instances, with a raised capacity by at most `ramp` a second.
        Capacities, periods and ramps are those of all bounds of the `layout`, in order; 0 changes
        nothing."""
        slots = [part.slots for part in parts_of(layout)]
        capacities, periods = _each(capacity, len(slots)), _each(period, len(slots))
        each = zip(capacities, periods, slots, _each(ramp, len(slots)), strict=True)
        bounds = tuple(
            BoundChange(capacity, round(period * 1000), slots=is_slots, ramp=rate / 1000)
            for capacity, period, is_slots, rate in each
        )
        return self.coordinator.set_terms(
            self.identity,
            self.clock(now),
            self._token(),
            LimitChange(
                bounds if capacity or period else (),
                lease=0 if lease_time is None else round(lease_time * 1000),
                layout=layout,
            ),
        )

    def delete(self, now: float) -> bool:
        """Delete the limit and its terms."""
        return self.coordinator.delete(self.identity, self.clock(now), self._token())

    def evict(self, instance: str) -> bool:
        """Evict an instance from the limit."""
        return self.coordinator.evict(instance)

    def _token(self) -> str:
        self._operations += 1
        return f"{self.identity}:operator:{self._operations}"


def _each(values: float | Sequence[float] | None, bounds: int) -> Sequence[float]:
    """Return a value for each bound, from one for all or one for each; 0 changes nothing."""
    if values is None:
        return [0.0] * bounds
    return [values] * bounds if isinstance(values, (int, float)) else values
