"""SharedResource: one limit that many processes share, through leases on its partitions."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from dataclasses import replace
from functools import partial

from limiters import events
from limiters._support.plain_numbers import plain
from limiters._support.validation import Seconds, amount, seconds
from limiters.announcements import Announcements
from limiters.asking import Asking
from limiters.clock import Clock
from limiters.distribution import SECONDS, Distribution
from limiters.errors import ImproperOrderError, LeaseManagerError, SharedCapacityNotProvisionedError
from limiters.float_error import covers
from limiters.holdings import Holdings
from limiters.leases import ranges
from limiters.leases.manager import LeaseManager
from limiters.leases.messages import Reply, Request, Terms, check_partitions
from limiters.provisioning import Provisioning
from limiters.purse import Purse
from limiters.resource import Resource
from limiters.shared_arguments import ramp_of, terms_of
from limiters.shared_grant import SharedGrant
from limiters.standing import Standing
from limiters.tally import Publication, Source, Tally
from limiters.turns import GRACE
from limiters.window import WindowLedger

_log = logging.getLogger(__name__)


class SharedResource(Resource):
    """A capacity of its own, and a share of one that all instances of a limit have together.

    * `shared_capacity`: what all may spend together in one `period`, and `factor`: what one of
      its partitions is worth. Those that are stored count: who joins with others follows them.
    * `reserved_capacity`: what this instance may spend beside it, at any time.
    * `lease_manager`: who keeps the leases, RedisLeaseManager as a rule.
    * `max_interval`: how often it asks while it has something to do. It asks at once when there
      is something to do again, and not at all while there is not.
    * `weight`: how much of the shared capacity it gets, compared with others who want more.
    * `ramp`: (x, y): a capacity raised by this instance rises by at most x over y seconds.

    Thread-safe. In a forked child it begins anew, as another instance that is not started.

    >>> from limiters import MemoryLeaseManager, SharedResource
    >>> limiter = SharedResource(
    ...     shared_capacity=1_000, factor=100, lease_manager=MemoryLeaseManager("orders")
    ... )
    >>> with limiter:
    ...     limiter.acquire(10, timeout=5)
    True
    """

    EVENTS = events.SHARED_EVENTS

    def __init__(
        self,
        *,
        shared_capacity: float = 0,
        reserved_capacity: float = 0,
        factor: float = 1,
        lease_manager: LeaseManager | None = None,
        max_interval: Seconds = 0.5,
        period: Seconds = 1.0,
        weight: float = 1.0,
        ramp: tuple[float, Seconds] | None = None,
        clock: Clock | None = None,
    ) -> None:
        shared = amount("shared_capacity", shared_capacity, zero=True)
        self._reserved = amount("reserved_capacity", reserved_capacity, zero=True)
        factor = amount("factor", factor)
        self._interval = seconds("max_interval", max_interval)
        self._terms = terms_of(
            lease_manager,
            shared=shared,
            factor=factor,
            reserved=self._reserved,
            period=period,
            interval=self._interval,
        )
        self._manager = lease_manager
        self._name = lease_manager.name if lease_manager else ""
        self._weight = amount("weight", weight)
        self._ramp = ramp_of(ramp)
        super().__init__(clock)

    def _begin(self) -> None:
        super()._begin()
        where = getattr(self._manager, "where", None)
        kept_by = repr(self._manager)
        self._announce = Announcements(self._emitter, self._terms, self._name, where, kept_by)
        self._reserved_ledger = WindowLedger(self._reserved, self._terms.period_ms / 1000)
        self._spent_before = 0.0
        """Of the shared capacity, as somebody who was disowned."""
        self._sync_seconds = Distribution(SECONDS)
        self._sync_failures = 0
        self._begin_holdings(self._terms)
        self._provisioning = Provisioning()
        self._tally = Tally()
        self._wakes_at = -1.0
        self._asking: Asking | None = None
        self._evicted = False
        self._broken: Exception | None = None

    def _begin_holdings(self, terms: Terms) -> None:
        """Takes part as somebody who was never heard of; what is reserved goes on."""
        self._holdings = Holdings(
            uuid.uuid4().hex[:16],
            terms,
            interval=self._interval,
            weight=self._weight,
            reserved=self._reserved,
            label=f"{socket.gethostname()}:{os.getpid()}",
        )
        self._purse = Purse(self._reserved_ledger, self._holdings.ledger)

    def __repr__(self) -> str:
        terms = self._holdings.terms
        return (
            f"SharedResource(shared_capacity={plain(terms.capacity)}, "
            f"reserved_capacity={plain(self._reserved)}, factor={plain(terms.factor)}, "
            f"lease_manager={self._manager!r})"
        )

    # What there is.

    @property
    def instance(self) -> str:
        """The name under which it takes part, until it begins anew."""
        return self._holdings.instance

    @property
    def max_capacity(self) -> float:
        """What could be had at most in one period: all that is shared, and what is reserved."""
        return self._holdings.terms.capacity + self._reserved

    @property
    def period(self) -> float:
        """The seconds in which it may be spent."""
        return self._holdings.terms.period_ms / 1000

    @property
    def capacity(self) -> float:
        """What is held now, for one period."""
        with self._lock:
            return self._holdings.settle(self._clock.now()) + self._reserved

    @property
    def partitions(self) -> list[int]:
        """The partitions that are held now."""
        with self._lock:
            held = self._clock.now() < self._holdings.until
            return ranges.indexes(self._holdings.held) if held else []

    @property
    def evicted(self) -> bool:
        """Whether an operator has shut this instance out: it gets nothing shared any more."""
        return self._evicted

    @property
    def broken(self) -> Exception | None:
        """What has ended its asking for shared capacity, for good: only a new one asks again."""
        return self._broken

    @property
    def burst(self) -> float:
        """What may go at once after a rest; of one partition, if there is nothing to spend yet."""
        with self._lock:
            now = self._clock.now()
            self._holdings.settle(now)
            return self._purse.burst(now) or self._holdings.burst(now)

    def standing(self) -> Standing:
        """What it holds, wants and has spent."""
        with self._lock:
            now = self._clock.now()
            worth = self._holdings.settle(now)
            told = self._holdings.told
            asks = not self._stopped and self._holdings.next_call(now) < float("inf")
            return Standing(
                name=self._name,
                shared=worth,
                reserved=self._reserved,
                max=self._holdings.terms.capacity + self._reserved,
                demand=self._demand,
                spent_shared=self._spent_before + self._holdings.ledger.total(),
                spent_reserved=self._reserved_ledger.total(),
                partitions_held=ranges.count(self._holdings.held) if worth else 0,
                partitions_wanted=self._holdings.asked,
                fair_share=told.share if told and worth else 0.0,
                connected=self._announce.connected(asks),
                sync_failures=self._sync_failures,
                sync_seconds=self._sync_seconds.copy(),
            )

    # Asking for capacity.

    def give_me(self, target: float, claimant: object = None) -> None:
        """Says how much waits to be spent; several who ask are told apart as claimants."""
        target = amount("target", target, zero=True)
        with self._lock:
            changed, demand = self._note_demand(target, claimant), self._demand
            self._want(self._clock.now())
        if changed:
            self._emitter.emit(events.TARGET, demand)

    def grant(self, up_to: float, at_least: float = 0.0, claimant: object = None) -> SharedGrant:
        """Sets aside up to `up_to` of what may be spent now, possibly nothing."""
        with self._lock:
            now = self._clock.now()
            self._holdings.settle(now)
            reserved = shared = 0.0
            if self._turns.is_for(claimant, now) or self._lacks(self._turns.gathering(now)):
                reserved, shared = self._purse.available(now, at_least)
                reserved = min(reserved, up_to)
                shared = min(shared, up_to - reserved)
            if covers(reserved + shared, at_least) or claimant is None:
                if self._turns.end(claimant):
                    self._want(now)  # it gathers no longer, or for something else
            else:
                until = self._ready_at(at_least, now) + GRACE
                self._turns.wait(claimant, at_least, until)
                self._want(now)
            usable = max(at_least, min(up_to, self._demands.get(claimant, 0.0)))
            self._holdings.short(reserved + shared < usable, now)
            self._purse.hold(reserved, shared)
            return SharedGrant(
                self._lock,
                self._clock,
                self._purse,
                self._holdings.tenure,
                reserved=reserved,
                shared=shared,
            )

    def take(self, cost: float, claimant: object = None) -> bool:
        """Spends `cost` now, if that may be; otherwise `claimant` waits for its turn."""
        with self._lock:
            now = self._clock.now()
            self._holdings.settle(now)
            reserved = shared = 0.0
            if self._turns.is_for(claimant, now) or self._lacks(self._turns.gathering(now)):
                reserved, shared = self._purse.available(now, cost)
            if not covers(reserved + shared, cost):
                self._turns.wait(claimant, cost, self._ready_at(cost, now) + GRACE)
                self._want(now)
                self._holdings.short(True, now)
                return False
            if self._turns.end(claimant):
                self._want(now)  # it gathers no longer
            self._holdings.short(False, now)
            self._purse.spend(min(cost, reserved + shared), now)
            return True

    def ready_at(self, cost: float) -> float:
        """When it is worth asking again for `cost`, as far as is known: capacity may come."""
        with self._lock:
            now = self._clock.now()
            self._holdings.settle(now)
            return self._ready_at(cost, now)

    def _lacks(self, cost: float) -> bool:
        """Whether less is held than that: until more comes, nobody is in its way."""
        return not covers(self._purse.capacity, cost)

    def _ready_at(self, cost: float, now: float) -> float:
        if self._lacks(cost):
            return now + self._interval
        return self._purse.ready_at(cost, now)

    def _want(self, now: float) -> None:
        """Tells the holdings what is wanted of the shared capacity; wakes who has to ask."""
        spare = max(0.0, self._reserved - self._purse.reserved.spent(now))
        waiting = max(0.0, self._demand - spare)
        if self._evicted:
            # Also when the lease manager, which is told nothing any more, has forgotten it.
            waiting = 0.0
        gathering = max(0.0, self._turns.gathering(now) - self._reserved)
        self._holdings.want(waiting, gathering if waiting else 0.0, now)
        if self._holdings.next_call(now) < self._wakes_at:
            self._wake()

    def _wake(self) -> None:
        if self._asking is not None:
            self._asking.wake()

    # Telling what was done.

    def publish(self, source: Source) -> Publication:
        """Tells all who look at the limit what `source()` counts, with the requests that are sent
        anyway: a mapping of names (limiters.leases.totals.COUNTERS) to numbers that only grow.

        A Batcher does so by itself. `end()` of what it returns asks a last time. Thread-safe.
        """
        return self._tally.publish(source)

    def _untold(self, read: tuple[float, ...]) -> tuple[float, ...]:
        own = {
            "spent_shared": self._spent_before + self._holdings.ledger.total(),
            "spent_reserved": self._reserved_ledger.total(),
            "sync_failures": self._sync_failures,
        }
        return self._tally.untold(read, own)

    # Changing it.

    def set_shared_capacity(self, capacity: float) -> None:
        """Changes what all instances share, for all of them; a raise as the `ramp` says.

        Raises LeaseManagerError if the lease manager cannot be reached.
        """
        capacity = amount("capacity", capacity)
        if self._manager is None:
            raise SharedCapacityNotProvisionedError(
                "there is no shared capacity to change: this SharedResource has no lease_manager"
            )
        # Who is new, or was idle, may know of another factor; that would start the limit over.
        stored = self._manager.look()
        with self._lock:
            known = stored.terms if stored else self._holdings.terms
        terms = replace(known, capacity=capacity)
        check_partitions(terms)
        self._manager.set_capacity(terms, self._ramp)
        with self._lock:
            self._holdings.look_again(capacity)
            self._wake()

    def set_reserved_capacity(self, capacity: float) -> None:
        """Changes what this instance may spend beside what is shared."""
        capacity = amount("capacity", capacity, zero=True)
        with self._lock:
            self._reserved = self._holdings.reserved = capacity
            self._purse.reserved.set_capacity(capacity)
            self._want(self._clock.now())
            self._wake()
        if self._manager is None:  # else its thread tells
            self._announce.capacity(capacity)
        self._line.wake()

    # Its life.

    def wait_until_provisioned(self, timeout: Seconds = 5.0) -> float:
        """Waits until the lease manager has answered, as `start()` does not. Thread-safe.

        Returns the seconds until something can be granted, 0 as a rule. If there is no answer
        within `timeout`, raises LeaseManagerError with what was wrong with the last request; the
        limiter goes on asking all the same. LimiterStoppedError if it is stopped meanwhile.
        """
        timeout = seconds("timeout", timeout, zero=True)
        if not self._started:
            raise ImproperOrderError("this limiter is not started; call start() first")
        return self._provisioning.wait(timeout)

    def _provision(self) -> None:
        self._announce.capacity(self._reserved)
        if self._manager is None:
            self._provisioning.answered(0.0)
            self._emitter.emit(events.PROVISION_DONE)
            return
        self._asking = Asking(
            self._next_request,
            partial(self._exchange, self._manager),
            self._last_request,
            self._failed,
        )
        self._asking.start()

    def _leave(self) -> None:
        self._provisioning.end()
        # Whoever keeps the leases may not answer at all: they run out by themselves.
        if self._asking is not None and not self._asking.end(self._terms.lease_ms / 1000):
            facts = {"happening": "stopped-without-leases", "limit": self._name}
            _log.warning("%r does not answer; stopped without it", self._manager, extra=facts)

    # The thread that asks.

    def _next_request(self) -> tuple[Request | None, float | None]:
        """The request that is due, or how long to wait for one."""
        read = self._tally.read()  # without the lock: it asks others
        self._line.tidy()
        with self._lock:
            now = self._clock.now()
            self._wakes_at = -1.0
            self._want(now)
            worth = self._holdings.settle(now)
            due = self._holdings.next_call(now)
            request = self._holdings.compose(now, self._untold(read)) if due <= now else None
            self._wakes_at = due
            ends = self._holdings.until if worth else float("inf")
            wait = min(due, ends) - now
        self._tell_capacity(worth)
        return request, None if wait == float("inf") else max(0.0, wait)

    def _exchange(self, manager: LeaseManager, request: Request) -> bool:
        sent_at, asked = self._clock.now(), time.monotonic()
        try:
            reply = manager.sync(request)
            if not isinstance(reply, Reply):
                raise LeaseManagerError(f"{manager!r} gave {reply!r} in place of a Reply")
        except BaseException as error:  # whatever it is, this process's own work goes on
            with self._lock:
                self._sync_failures += 1
                self._holdings.unanswered(self._clock.now())
            self._provisioning.failed(error)
            self._announce.lost(error, asked)
            return False
        self._sync_seconds.note(self._clock.now() - sent_at)
        self._receive(reply, sent_at)
        return True

    def _receive(self, reply: Reply, sent_at: float) -> None:
        with self._lock:
            now = self._clock.now()
            if self._holdings.pending is not None and not reply.stale:
                self._tally.told(self._holdings.pending.totals)
            news = self._holdings.answered(reply, sent_at, now)
            self._evicted = self._evicted or reply.evicted
            if news.disowned:
                self._holdings.tenure.until = now
                self._spent_before += self._holdings.ledger.total()
                self._begin_holdings(self._holdings.terms)
            worth = self._holdings.settle(now)
        self._announce.reply(reply, news)
        if not news.disowned:
            self._provisioning.answered(reply.quarantine_ms / 1000)
        self._tell_capacity(worth)

    def _tell_capacity(self, worth: float) -> None:
        if self._announce.capacity(worth + self._reserved):
            self._line.wake()

    def _last_request(self) -> Request | None:
        """Gives back what is held: one try for what is under way, one to leave."""
        holdings, read = self._holdings, self._tally.read()
        with self._lock:
            now = self._clock.now()
            if holdings.pending is None and (holdings.left or holdings.told is None):
                self._announce.capacity(self._reserved)
                return None
            if holdings.pending is not None:
                return holdings.compose(now)
            return holdings.leave(now, self._untold(read))

    def _failed(self, error: Exception) -> None:
        self._broken = error
        self._provisioning.failed(error)
        self._provisioning.end()
        message = "no shared capacity is asked for any more"
        facts = {"happening": "asking-broke", "limit": self._name}
        _log.critical(message, exc_info=error, extra=facts)
        self._emitter.emit(events.ERROR, 0, f"{message}: {error!r}", error)
