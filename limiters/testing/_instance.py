"""One process of a simulated cluster, with its own clock, its work and its share of the limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from limiters._budgets.several import AnyParts
from limiters._budgets.spend import Spend, nothing
from limiters._costs import AnyCost, Costs, is_covered
from limiters._sharing.asking import LAST_TRIES
from limiters._sharing.budget import SharedBudget
from limiters.leases._messages import Reply, Request, Terms, weight_units
from limiters.testing.work import LastingWork, SettledWork, Work
from limiters.verifier import Spent

if TYPE_CHECKING:
    from limiters.testing._server import SimulatedServer
    from limiters.testing.cluster import SimulatedCluster

ENDLESS = 1e12
"""The demand of a backlog without an end."""

SOON = 0.0005
"""The shortest time in seconds between two attempts to spend."""


class Call(NamedTuple):
    """A call: its start and end, its instance and its cost."""

    start: float
    end: float
    instance: str
    cost: AnyCost
    """The actual cost; the estimate, if the process was lost before it was settled."""
    estimated: AnyCost = 0.0


class SimulatedInstance:
    """Spends as its share of the limit allows, and requests more."""

    def __init__(
        self, cluster: SimulatedCluster, name: str, work: Work, weight: float, terms: Terms
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.work = work
        self.rate = 1 + cluster.drift * cluster.random.uniform(-1, 1)
        self.offset = cluster.random.uniform(0, 1000)
        self.share = cluster.share(
            name, terms, interval=cluster.interval, weight=weight_units(weight)
        )
        self.budget = SharedBudget(cluster.limit, cluster.limit.nothing, nothing)
        self.budget.join(self.share)
        self.timeout = min(cluster.timeout, terms.lease / 2000)
        self.alive = True
        self.leaving = False
        self._last_tries = LAST_TRIES
        self.evicted = False
        self.refused = 0
        self.calls = 0
        self.failures = 0
        self.took = 0.0
        """The seconds of the last exchange."""
        self.hangs_until = -math.inf
        self.cut_until = -math.inf
        self.deaf_until = -math.inf
        self._attempt = 0
        self._sent_at = 0.0
        self._waking = math.inf
        self._looking = math.inf

    @property
    def work(self) -> Work:
        """The work of the instance."""
        return self._work

    @work.setter
    def work(self, work: Work) -> None:
        self._work = work
        self._lasting = work if isinstance(work, LastingWork) else None
        self._settled = work if isinstance(work, SettledWork) else None

    def local(self, now: float) -> float:
        """Return the time of its own clock."""
        return self.offset + now * self.rate

    def start(self, now: float) -> None:
        """Begin to send requests and to spend."""
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
        self._looking = math.inf
        ready = self._spend(now)
        self._look_at_calls(now)
        tick = self.cluster.tick
        if ready is None:
            self._look_at(now + tick, now)
        else:
            self._look_at(min(max(self._at(ready, now), now + SOON), now + 5 * tick), now)

    def _look_at(self, at: float, now: float) -> None:
        if at < self._looking:
            self._looking = at
            self._later(at, lambda then: self._tick(then) if self._looking == at else None)

    def _spend(self, now: float) -> float | None:
        """Spend as much as is allowed. Return when more may be possible, if anything waits."""
        local, share, budget = self.local(now), self.share, self.budget
        share.settle(local)
        while not (self.leaving or self.evicted) and (waiting := self.work.waiting(now)):
            piece = self.work.piece
            there = budget.purse.available(local, piece)
            if not is_covered(there.amount, piece):
                share.want(_finite(waiting), self._gathering(piece, local), local)
                share.short(budget.lacking(there, piece), local)
                return budget.purse.ready_at(piece, local)
            self._raise(there.paying(piece), now)
            share.want(_finite(waiting), 0.0, local)  # the next piece has not waited yet
            share.short(False, local)
        share.want(0.0, 0.0, local)
        return None

    def _gathering(self, piece: AnyCost, local: float) -> AnyCost:
        if isinstance(piece, Costs):
            return piece
        return piece if piece > self.share.burst(local) else 0.0

    def _raise(self, parts: AnyParts, now: float) -> None:
        purse, piece = self.budget.purse, self.work.piece
        purse.hold(parts)
        spend = purse.charge(parts, self.local(now), self.share.tenure)
        lasts = self._lasting.lasts if self._lasting is not None else 0.0
        actual = self._settled.actual if self._settled is not None else ()
        self.work.went(piece, now)

        def begin(then: float) -> None:
            if spend.started(self.local(then)):
                self.cluster.log.append(Spent(then, self.name, piece))
                self.cluster.calls.append(Call(then, then + lasts, self.name, piece, piece))
                number = len(self.cluster.calls) - 1
                if lasts > self.cluster.max_operation_time:
                    self._later(then + self.cluster.max_operation_time, abandon)
                for at, cost in enumerate(actual[:-1], 1):
                    known = then + lasts * at / len(actual)
                    self._later(known, partial(_settle, spend, cost))
                if lasts:
                    self._later(then + lasts, partial(end, number))
                else:
                    self._end(spend, actual, number, then)

        def abandon(then: float) -> None:
            spend.abandoned(self.local(then))
            self._tick(then)

        def end(number: int, then: float) -> None:
            self._end(spend, actual, number, then)
            self._tick(then)

        self._later(now + self.cluster.random.uniform(0, self.cluster.latest_start), begin)

    def _end(self, spend: Spend, actual: Sequence[AnyCost], number: int, now: float) -> None:
        if actual and spend.settle(actual[-1]):
            self.cluster.calls[number] = self.cluster.calls[number]._replace(cost=actual[-1])
        spend.ended(self.local(now))

    # Requests.

    def leave(self, now: float) -> None:
        """Stop spending, and return all capacity."""
        self.leaving = True
        self._look_at_calls(now)

    def _look_at_calls(self, now: float) -> None:
        if self._attempt % 2:
            return  # a request is under way
        if self.leaving:
            due = self.share.next_leave(self.local(now))
            if due == math.inf or self.share.reply is None:
                self.alive = False
                self.cluster.instances.pop(self.name, None)
                return
        else:
            due = self.share.next_call(self.local(now))
        if due == math.inf:
            return
        at = self._at(due, now)
        if at < self._waking:
            self._waking = at
            self._later(at, lambda then: self._wake(then) if self._waking == at else None)

    def _wake(self, now: float) -> None:
        self._waking = math.inf
        if self._attempt % 2:
            return
        local = self.local(now)
        share = self.share
        due = share.next_leave(local) if self.leaving else share.next_call(local)
        if due > local + 1e-9:
            self._look_at_calls(now)
            return
        if self.leaving and self.share.pending is None:
            request = self.share.leave(local)
        else:
            request = self.share.compose(local)
        self.calls += 1
        self._attempt += 1
        attempt = self._attempt
        self._sent_at = local
        self._send(request, attempt, now)
        self._later(now + self.timeout, lambda then: self._give_up(attempt, then))

    def _send(self, request: Request, attempt: int, now: float) -> None:
        cluster, server = self.cluster, self.cluster.server
        network, random = cluster.network, cluster.random
        arrives = now + network.one_way(random)
        if random.random() >= network.lost_requests and now >= self.cut_until:
            cluster.at(arrives, lambda then: self._serve(request, attempt, server, then))
        if network.doubled and random.random() < network.doubled:
            late = now + random.uniform(0, network.latest)
            cluster.at(late, lambda then: self._serve(request, -1, server, then))

    def _serve(self, request: Request, attempt: int, server: SimulatedServer, now: float) -> None:
        reply = self.cluster.serve(request, server)
        network, random = self.cluster.network, self.cluster.random
        if reply is None or attempt < 0 or random.random() < network.lost_replies:
            return
        if now < max(self.cut_until, self.deaf_until):
            return
        arrives = now + network.one_way(random)
        self._later(arrives, lambda then: self._receive(reply, attempt, then))

    def _receive(self, reply: Reply, attempt: int, now: float) -> None:
        if attempt != self._attempt:
            return
        self._attempt += 1
        self.took = self.local(now) - self._sent_at
        news = self.share.answered(reply, self._sent_at, self.local(now))
        assert not news.disowned, reply
        self.refused += news.refused is not None
        self.evicted = self.evicted or reply.evicted
        self.cluster.heard(self, reply)
        self._tick(now)

    def _give_up(self, attempt: int, now: float) -> None:
        if attempt != self._attempt:
            return
        self._attempt += 1
        self.failures += 1
        self.share.unanswered(self.local(now))
        if self.leaving and not self.share.lingers:
            self._last_tries -= 1
            if not self._last_tries:  # its lease expires by itself
                self.alive = False
                self.cluster.instances.pop(self.name, None)
                return
        self._look_at_calls(now)


def _finite(waiting: AnyCost) -> AnyCost:
    """Return the demand, bounded for a backlog without an end."""
    return waiting if isinstance(waiting, Costs) else min(waiting, ENDLESS)


def _settle(spend: Spend, actual: AnyCost, now: float) -> None:
    """Settle a call that still runs."""
    spend.settle(actual)
