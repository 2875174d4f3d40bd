"""A shared limit in virtual time, step by step: instances that spend all they may, on servers that
lose data, fall behind or come back, and that a test changes by hand."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

from limiters._instance_share import InstanceShare
from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.state import Registry
from limiters.leases._format import DEFAULT_SPAN, NEVER
from limiters.leases._messages import Kind, Reply, Request, Terms
from limiters.leases._terms_change import LimitChange

TERMS = Terms.scalar(capacity=1_000.0, factor=50.0, period=1_000, lease=2_000)
STEP = 0.01
"""Seconds between two looks at what is due and what may be spent."""


class Server:
    """A server process: an identity, its stored data, and a clock that may be wrong."""

    def __init__(
        self,
        identity: str,
        *,
        ahead: float = 0.0,
        empty_from_the_start: bool = True,
        default_span: int = DEFAULT_SPAN,
    ) -> None:
        self.identity = identity
        self.ahead = ahead
        """How many seconds its clock is ahead of true time."""
        self.stored = Coordinator(default_span=default_span)
        if empty_from_the_start:
            self.stored.registry = Registry(identity, NEVER)

    def clock(self, now: float) -> int:
        return math.floor((now + self.ahead) * 1_000)

    def sync(self, request: Request, now: float) -> Reply:
        return self.stored.sync(request, self.identity, self.clock(now))

    def set_terms(
        self,
        now: float,
        *,
        capacity: float | None = None,
        ramp: float | None = None,
        lease: int | None = None,
        period: int | None = None,
    ) -> bool:
        """Do what an operator's command does. Durations are in milliseconds."""
        return self.stored.set_terms(
            self.identity,
            self.clock(now),
            f"set at {now}",
            LimitChange.scalar(capacity=capacity, ramp=ramp, lease=lease, period=period),
        )

    def delete(self, now: float) -> bool:
        return self.stored.delete(self.identity, self.clock(now), f"deleted at {now}")

    def flush(self) -> None:
        """Do what FLUSHALL does: all stored data is gone, and the process goes on."""
        self.stored = Coordinator(default_span=self.stored.default_span)

    def copy(self, identity: str, *, ahead: float = 0.0) -> Server:
        """Return a replica of this moment, which becomes the master under an identity of its
        own."""
        other = Server(identity, ahead=ahead)
        other.stored = copy.deepcopy(self.stored)
        return other

    def restart(self, identity: str, *, empty: bool) -> None:
        self.identity = identity
        if empty:
            self.flush()


class Instance:
    """An instance that always spends as much as it may, in pieces of `cost`."""

    def __init__(
        self, name: str, terms: Terms = TERMS, *, backlog: float = 5_000.0, cost: float = 5.0
    ) -> None:
        self.name = name
        self.share = InstanceShare(name, terms, interval=min(0.5, terms.lease / 4_000))
        self.backlog = backlog
        self.cost = cost
        self.connected = True
        self.alive = True
        self.requests: list[Request] = []
        """All requests that it has sent."""
        self.replies: list[Reply] = []
        self.calls = 0
        self.spent: list[tuple[float, float]] = []

    def held(self, now: float) -> float:
        """Return the capacity that it holds, as a cost."""
        return self.share.settle(now)

    def exchange(self, server: Server, now: float) -> Reply | None:
        """Send the request that is due, once. Return None if there is no answer."""
        request = self.share.compose(now)
        self.calls += 1
        self.requests.append(request)
        if not self.connected:
            self.share.unanswered(now)
            return None
        reply = server.sync(request, now)
        self.replies.append(reply)
        self.share.answered(reply, now, now)
        return reply

    def ask(self, server: Server, now: float) -> Reply:
        """Send the request that is due until it is answered or refused."""
        for _ in range(6):
            reply = self.exchange(server, now)
            if reply is not None and reply.kind not in (Kind.CHALLENGE, Kind.RETRY):
                return reply
        raise AssertionError(f"{self.name} was challenged too often")

    def leave(self, server: Server, now: float) -> None:
        """Stop, and give back what it holds."""
        self.alive = False
        self.share.want(0.0, 0.0, now)
        if self.share.pending is not None:
            self.ask(server, now)
        self.share.leave(now)
        self.ask(server, now)

    def turn(self, server: Server, now: float) -> None:
        """Spend as much as it may, and send what is due."""
        self.spend(now)
        gathering = self.cost if self.backlog >= self.cost else 0.0
        self.share.want(self.backlog, gathering, now)
        while self.share.next_call(now) <= now:
            if self.exchange(server, now) is None:
                break
            self.spend(now)

    def spend(self, now: float) -> None:
        """Start as many pieces as it may."""
        share = self.share
        share.settle(now)
        while self.backlog >= self.cost:
            if share.permit.available(now) >= self.cost * (1 - 1e-8):
                share.permit.payment(self.cost, now).enter()
            elif share.ledger.available(now, self.cost) >= self.cost * (1 - 1e-8):
                share.ledger.payment(self.cost, now).enter()
            else:
                break
            self.spent.append((now, self.cost))
        share.short(self.backlog >= self.cost, now)

    def used(self, since: float, until: float) -> float:
        """Return the cost that it spent in (since, until]."""
        return math.fsum(cost for at, cost in self.spent if since < at <= until)


class Story:
    """Instances and the server that they reach, as time passes."""

    def __init__(self, server: Server | None = None, *, period: float = 1.0) -> None:
        self.server = server or Server("one")
        self.period = period
        self.now = 100.0
        self.instances: list[Instance] = []

    def join(self, name: str, terms: Terms = TERMS, **settings: float) -> Instance:
        """Add an instance that takes part from now on."""
        one = Instance(name, terms, **settings)
        self.instances.append(one)
        return one

    def run(self, seconds: float, each: Callable[[], object] = lambda: None) -> None:
        """Let time pass, in which all instances work."""
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            each()
            for one in self.instances:
                if one.alive:
                    one.turn(self.server, self.now)

    def worst(self, since: float = 0.0) -> float:
        """Return the highest cost that all together spent in any window that ends after `since`."""
        spent = sorted(entry for one in self.instances for entry in one.spent)
        worst, total, first = 0.0, 0.0, 0
        for at, cost in spent:
            total += cost
            while spent[first][0] <= at - self.period + 1e-9:
                total -= spent[first][1]
                first += 1
            if at > since:
                worst = max(worst, total)
        return worst

    def used(self, since: float) -> float:
        """Return the cost that all together spent since then, as a share of what they might have
        spent."""
        assert self.server.stored.limit is not None
        rate = self.server.stored.limit.terms.capacity / self.period
        return sum(one.used(since, self.now) for one in self.instances) / rate / (self.now - since)
