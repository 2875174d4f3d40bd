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
    """What a server had stored: a replica, or a file."""

    limit: Limit | None
    registry: Registry | None


class SimulatedServer:
    """One server process. Its clock has nothing in common with that of any other server.

    * `identity`: new at each start of the process.
    * `offset`: by how many seconds its clock is ahead, and `rate`: how fast it runs.
    * `vouches`: whether it was started empty by somebody who knows that, so that a new limit need
      not wait (law C12).
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
        """What its clock says, in milliseconds."""
        return math.floor((self._offset + (now - self._since) * self._rate) * 1000)

    def step(self, seconds: float) -> None:
        """Sets its clock forward, or back."""
        self._offset += seconds

    def run_at(self, rate: float, now: float) -> None:
        """Its clock runs at another rate from now on."""
        self._offset += (now - self._since) * self._rate
        self._since, self._rate = now, rate

    def sync(self, request: Request, now: float) -> Reply:
        """What the coordinator answers at the time `now`."""
        return self.coordinator.sync(request, self.identity, self.clock(now))

    # What it stores.

    def snapshot(self) -> ServerSnapshot:
        """A copy of everything."""
        return ServerSnapshot(*copy.deepcopy((self.coordinator.limit, self.coordinator.registry)))

    def load(self, snapshot: ServerSnapshot) -> None:
        """Replaces all that the server has stored, as a failover to an older copy does."""
        limit, registry = copy.deepcopy((snapshot.limit, snapshot.registry))
        self.coordinator.limit, self.coordinator.registry = limit, registry

    def flush(self) -> None:
        """Removes all that the server has stored."""
        self.load(ServerSnapshot(None, None))

    def lose_limit(self) -> None:
        """Loses the limit, and keeps the registry."""
        self.coordinator.limit = None

    def lose_registry(self) -> None:
        """Loses the registry, and keeps the limit."""
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
        """Changes the limit for all, a raised capacity by at most `ramp` a second. Capacities,
        periods and ramps are those of all bounds of the `layout`, in order; 0 for what stays."""
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
        """Forgets the limit and its terms."""
        return self.coordinator.delete(self.identity, self.clock(now), self._token())

    def evict(self, instance: str) -> bool:
        """Shuts an instance out."""
        return self.coordinator.evict(instance)

    def _token(self) -> str:
        self._operations += 1
        return f"{self.identity}:operator:{self._operations}"


def _each(values: float | Sequence[float] | None, bounds: int) -> Sequence[float]:
    """A value for each bound, which may be the same; 0 for what stays as it is."""
    if values is None:
        return [0.0] * bounds
    return [values] * bounds if isinstance(values, (int, float)) else values
