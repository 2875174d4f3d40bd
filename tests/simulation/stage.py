"""A stage for directed histories: servers and instances without a network, moved step by step.

Instances spend all that they may immediately, without a pace: what is exact must not depend on it.
"""

from __future__ import annotations

import copy
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate

from limiters._instance_share import InstanceShare
from limiters.leases._coordinator import Coordinator
from limiters.leases._messages import Kind, Reply, Request, Terms
from limiters.testing import SimulatedServer

ENDLESS = 1e9

PIECES = 10
"""The number of pieces in which a limit is spent."""


class Player:
    """An instance: what it has to do is set by the history."""

    def __init__(self, stage: Stage, name: str, share: InstanceShare, backlog: float) -> None:
        self.stage = stage
        self.name = name
        self.share = share
        self.backlog = backlog
        self.oversized = 0.0
        """The cost of an operation that it has to do first."""

    def spend(self, now: float) -> None:
        """All that it may."""
        share = self.share
        worth = share.settle(now)
        if self.oversized and share.permit.available(now) >= self.oversized - 1e-9:
            share.permit.payment(self.oversized, now).enter()
            self._note(self.oversized, now)
            self.oversized = 0.0
        room = min(worth - share.ledger.spent(now), self.backlog)
        piece = self.stage.capacity / PIECES
        for _ in range(math.floor(room / piece + 1e-6)):
            share.ledger.payment(piece, now).enter()
            self._note(piece, now)

    def _note(self, cost: float, now: float) -> None:
        self.backlog = max(0.0, self.backlog - cost) if self.backlog < ENDLESS else ENDLESS
        self.stage.log.append((now, self.name, cost))

    def send(self, now: float) -> Request:
        """Composes its request, or the one that was not answered."""
        self.spend(now)
        self.share.want(self.backlog + self.oversized, self.oversized, now)
        return self.share.compose(now)

    def hear(self, reply: Reply, now: float, sent_at: float | None = None) -> Kind:
        """Let an instance follow a reply."""
        self.share.answered(reply, now if sent_at is None else sent_at, now)
        self.spend(now)
        return reply.kind

    def keep(self, units: int) -> None:
        """It may keep so much."""
        [bound] = self.share.bounds
        bound.reply = replace(bound.reply, keep=units)


class Stage:
    """Servers and instances of one limit, and what was spent."""

    def __init__(
        self,
        *,
        period: float = 1.0,
        lease: float = 2.0,
        capacity: float = 100.0,
        interval: float = 0.5,
        default_span: float = 0.0,
        coordinator: type[Coordinator] | None = None,
        share: type[InstanceShare] | None = None,
    ) -> None:
        self.period, self.lease, self.capacity, self.interval = period, lease, capacity, interval
        self.terms = Terms.scalar(
            capacity, capacity / 10, round(period * 1000), round(lease * 1000)
        )
        self.default_span = default_span
        self.coordinator = coordinator or Coordinator
        self.share = share or InstanceShare
        self.log: list[tuple[float, str, float]] = []
        self._players = 0
        self._servers = 0

    # Who takes part.

    def server(self, *, vouches: bool = False, offset: float | None = None) -> SimulatedServer:
        self._servers += 1
        return SimulatedServer(
            f"s{self._servers}",
            self.coordinator(default_span=round(self.default_span * 1000)),
            offset=1e6 + 7e3 * self._servers if offset is None else offset,
            vouches=vouches,
        )

    def copy(self, server: SimulatedServer) -> SimulatedServer:
        """Another server process with the same state, and the same clock."""
        other = copy.deepcopy(server)
        self._servers += 1
        other.identity = f"s{self._servers}"
        return other

    def player(self, backlog: float = ENDLESS, terms: Terms | None = None) -> Player:
        self._players += 1
        name = f"p{self._players}"
        terms = terms or self.terms
        return Player(self, name, self.share(name, terms, interval=self.interval), backlog)

    # What happens.

    def go(self, player: Player, server: SimulatedServer, now: float) -> Reply:
        """One exchange, and further ones if it is sent back."""
        for _ in range(6):
            reply = server.sync(player.send(now), now)
            if player.hear(reply, now) not in (Kind.CHALLENGE, Kind.RETRY):
                return reply
        raise AssertionError(f"sent back without end: {reply}")

    def run(
        self,
        start: float,
        end: float,
        on: Mapping[Player, SimulatedServer] | None = None,
        idle: Iterable[Player] = (),
        step: float = 0.05,
    ) -> None:
        """From start to end: each of `on` asks its server each interval; the others only spend."""
        on = on or {}
        every = max(1, round(self.interval / step))
        for number in range(math.ceil((end - start) / step - 1e-9)):
            now = start + number * step
            for player, server in on.items():
                if number % every == 0:
                    self.go(player, server, now)
            for player in (*on, *idle):
                player.spend(now)

    def give_up_part(self, player: Player, server: SimulatedServer, now: float) -> None:
        """It gives up a half in a request that only leads to a challenge: the half is no longer its
        own, and the next claim says so."""
        player.keep(player.share.units // 2)
        assert player.hear(server.sync(player.send(now), now), now) is Kind.CHALLENGE

    # What came of it.

    def worst(self, period: float | None = None) -> float:
        """The fullest window, as a share of the limit."""
        return max((used for _, used in self.windows(period)), default=0.0)

    def windows(self, period: float | None = None) -> list[tuple[float, float]]:
        """(when it ends, how full it is) of each window."""
        log = sorted((at, cost) for at, _, cost in self.log)
        times = [at for at, _ in log]
        sums = [0.0, *accumulate(cost for _, cost in log)]
        length = period or self.period
        return [
            (at, (sums[index + 1] - sums[bisect_right(times, at - length)]) / self.capacity)
            for index, at in enumerate(times)
        ]
