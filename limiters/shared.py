"""SharedResource: one limit that many processes share, through leases on its partitions."""

from __future__ import annotations

import logging
import math
import os
import socket
import time
import uuid
from collections.abc import Mapping
from functools import partial

from limiters import events
from limiters._costs import AnyCost, greater, is_covered, lesser, plain_cost
from limiters._instance_share import InstanceShare
from limiters._plain_numbers import plain
from limiters._resource.reservation import Receipt
from limiters._resource.resource import Resource
from limiters._resource.turns import GRACE
from limiters._sharing.arguments import limits_of, reserved_of, terms_of
from limiters._sharing.asking import Asking
from limiters._sharing.bound_standings import bound_standings
from limiters._sharing.budget import SharedBudget
from limiters._sharing.grant import SharedGrant
from limiters._sharing.learned_notes import LearnedNotes
from limiters._sharing.options import SharedResourceOptions
from limiters._sharing.provisioning import Provisioning
from limiters._sharing.share_events import Announcements
from limiters._sharing.spent_totals import spent_totals
from limiters._stats.histogram import SECONDS, Histogram
from limiters._stats.standing import Standing
from limiters._stats.tally import Publication, Source, Tally
from limiters._support.signatures import lists, takes
from limiters._support.validation import Seconds, in_seconds, seconds
from limiters.errors import ImproperOrderError, LeaseManagerError, SharedCapacityNotProvisionedError
from limiters.leases._learned_costs import with_costs
from limiters.leases._messages import (
    Kind,
    Reply,
    Request,
    Terms,
    partitions_of,
    ramp_of,
    shared_amount,
    weight_units,
)
from limiters.leases._operator import A_CHANGE
from limiters.leases._totals import counters_of
from limiters.leases.protocol import LeaseManager
from limiters.limiter import Ending, LearnedSource
from limiters.limits import Limits

_log = logging.getLogger("limiters.shared")


@lists(SharedResourceOptions)
class SharedResource(Resource):
    """A share of a capacity that all instances of a limit share, and a reserved capacity of its
    own.

    Thread-safe. In a forked child it starts over, as another instance that is not started.

    >>> from limiters import MemoryLeaseManager, SharedResource
    >>> limiter = SharedResource(
    ...     shared_capacity=1_000, factor=100, lease_manager=MemoryLeaseManager("orders")
    ... )
    >>> with limiter:
    ...     limiter.acquire(10, timeout=5)
    True
    """

    EVENTS = events.SHARED_EVENTS

    @takes(SharedResourceOptions)
    def __init__(self, options: SharedResourceOptions) -> None:
        self._options = options
        self._manager = options.lease_manager
        self._name = self._manager.name if self._manager else ""
        self._interval = in_seconds(options.max_interval)
        self._terms = terms_of(options)
        self._shared_limits = limits_of(options)
        self._reserved = reserved_of(options, self._shared_limits)
        super().__init__(options.clock)

    def _begin(self) -> None:
        super()._begin()
        where = getattr(self._manager, "where", None)
        kept_by = repr(self._manager)
        self._announce = Announcements(self._emitter, self._terms, self._name, where, kept_by)
        self._budget = SharedBudget(
            self._shared_limits,
            self._reserved,
            self._changed,
            shared=self._manager is not None,
        )
        self._sync_seconds = Histogram(SECONDS)
        self._sync_failures = 0
        self._member = f"{socket.gethostname()}:{os.getpid()}"
        self._learned = LearnedNotes()
        self._begin_share(self._terms)
        self._provisioning = Provisioning()
        self._tally = Tally(counters_of(self._shared_limits.dimensions))
        self._wakes_at = -1.0
        self._asking: Asking | None = None
        self._sent_twice = False
        """Whether its totals were sent a second time at the end."""
        self._evicted = self._refused = False
        self._broken: Exception | None = None

    def _begin_share(self, terms: Terms) -> None:
        """Take part under a new identity. Reserved capacity and its spending stay."""
        self._share = InstanceShare(
            uuid.uuid4().hex[:16],
            terms,
            interval=self._interval,
            bounds=self._shared_limits.bounds,
            freed=self._changed,
            label=with_costs(self._member, self._learned.costs),
            weight=weight_units(self._options.weight),
        )
        self._budget.join(self._share)

    def __repr__(self) -> str:
        limits, terms = self._shared_limits, self._share.terms
        if "" not in limits.dimensions:
            return (
                f"SharedResource(shared_capacity={limits!r}, "
                f"reserved_capacity={plain_cost(self._reserved)}, lease_manager={self._manager!r})"
            )
        return (
            f"SharedResource(shared_capacity={plain(terms.capacity)}, "
            f"reserved_capacity={plain(self._reserved)}, factor={plain(terms.factor)}, "
            f"lease_manager={self._manager!r})"
        )

    # Its capacity.

    @property
    def instance(self) -> str:
        """The identity under which it takes part, until it takes a new one."""
        return self._share.instance

    @property
    def limits(self) -> Limits:
        """The limits by dimension: the whole shared capacity plus the reserved capacity."""
        return self._budget.allowed

    @property
    def max_capacity(self) -> AnyCost:
        """The most that it could spend in one period: the whole shared capacity plus the
        reserved."""
        return self._budget.most

    @property
    def period(self) -> float:
        """The seconds in which it may be spent; with several windows, of the longest."""
        return self._budget.period

    @property
    def capacity(self) -> AnyCost:
        """The capacity that it holds now, for one period."""
        with self._lock:
            return self._budget.there(self._clock.now()) + self._reserved

    @property
    def partitions(self) -> float:
        """How many partitions it holds now, with a fraction, since the leased amount is an exact
        part of the limit. With several dimensions, of the dimension of which it holds the largest
        part."""
        with self._lock:
            return self._partitions_held(self._clock.now())

    def _partitions_held(self, now: float) -> float:
        if now >= self._share.until:
            return 0.0
        return self._budget.partitions([one.units for one in self._share.bounds])

    @property
    def evicted(self) -> bool:
        """Whether an operator has evicted this instance: then it gets no shared capacity any
        more."""
        return self._evicted

    @property
    def broken(self) -> Exception | None:
        """The error that has ended its requests for shared capacity for good: make a new
        limiter."""
        return self._broken

    @property
    def burst(self) -> AnyCost:
        """The largest cost that may be spent immediately after a rest; of one partition, if it
        holds nothing yet."""
        with self._lock:
            return self._budget.burst(self._clock.now())

    def standing(self) -> Standing:
        """Return what it holds, needs and has spent."""
        with self._lock:
            now = self._clock.now()
            shared = self._budget.shared(now)
            share, reply = self._share, self._share.reply
            bounds = bound_standings(self._budget, self._demand, now)
            asks = not self._stopped and share.next_call(now) < float("inf")
            return Standing(
                name=self._name,
                shared=shared,
                reserved=self._reserved,
                max=self._budget.most,
                demand=self._demand,
                bounds=bounds,
                member=self._member,
                spent_shared=self._shared_limits.smallest(one.spent_shared for one in bounds),
                spent_reserved=self._shared_limits.smallest(one.spent_reserved for one in bounds),
                partitions_held=self._partitions_held(now),
                partitions_wanted=share.partitions_asked,
                fair_share=self._budget.partitions([one.share for one in reply.bounds])
                if reply
                else 0.0,
                permits=share.permits,
                permit_wait=share.permit_wait(now),
                turn=reply.ahead + 1 if reply is not None and reply.waiting else 0,
                uncertain=reply.uncertain / 1000 if reply is not None else 0.0,
                uncertain_cause=reply.cause if reply is not None else "",
                clock_skew=reply.skew / 1000 if reply is not None else 0.0,
                refused=self._refused,
                connected=self._announce.connected(asks),
                trouble=self._announce.trouble,
                sync_failures=self._sync_failures,
                sync_seconds=self._sync_seconds.copy(),
            )

    # Requests for capacity.

    def _follow_demand(self) -> None:
        self._want(self._clock.now())

    def grant(
        self, up_to: AnyCost, at_least: AnyCost = 0.0, claimant: object = None
    ) -> SharedGrant:
        """Set aside up to `up_to` of the capacity that may be spent now, possibly nothing."""
        limits, budget = self._shared_limits, self._budget
        up_to = limits.checked("up_to", up_to)
        at_least = limits.checked("at_least", at_least)
        with self._lock:
            now = self._clock.now()
            self._share.settle(now)
            there = budget.nothing
            if self._turns.is_for(claimant, now) or budget.lacks(self._turns.gathering(now), now):
                there = budget.purse.available(now, at_least)
            parts = there.up_to(up_to)
            if is_covered(parts.amount, at_least) or claimant is None:
                if self._turns.end(claimant):
                    self._want(now)  # it no longer gathers, or gathers for another claimant
            else:
                until = self._ready_at(at_least, now) + GRACE
                self._turns.wait(claimant, at_least, until)
                self._want(now)
            wanted = self._demands.get(claimant, limits.nothing)
            usable = greater(at_least, lesser(up_to, wanted))
            self._share.short(budget.lacking(there, usable), now)
            budget.purse.hold(parts)
            return SharedGrant(self._lock, self._clock, budget.purse, self._share.tenure, parts)

    def take(self, cost: AnyCost, claimant: object, receipt: Receipt) -> bool:
        """Charge `cost` as begun now, if there is capacity; otherwise `claimant` waits for its
        turn."""
        budget = self._budget
        cost = self._shared_limits.checked("cost", cost)
        with self._lock:
            now = self._clock.now()
            self._share.settle(now)
            parts = budget.nothing
            if self._turns.is_for(claimant, now) or budget.lacks(self._turns.gathering(now), now):
                parts = budget.purse.available(now, cost)
            if not is_covered(parts.amount, cost):
                self._turns.wait(claimant, cost, self._ready_at(cost, now) + GRACE)
                self._want(now)
                self._share.short(budget.lacking(parts, cost), now)
                return False
            if self._turns.end(claimant):
                self._want(now)  # it gathers no longer
            self._share.short(False, now)
            payment = budget.purse.payment(lesser(cost, parts.amount), now, receipt)
            receipt.payment = payment  # first: an interrupt may come now
            payment.enter()
            return True

    def ready_at(self, cost: AnyCost) -> float:
        """Return the time when a new request for `cost` may succeed. Capacity may come earlier."""
        cost = self._shared_limits.checked("cost", cost)
        with self._lock:
            now = self._clock.now()
            self._share.settle(now)
            return self._ready_at(cost, now)

    def _ready_at(self, cost: AnyCost, now: float) -> float:
        if self._budget.lacks(cost, now):  # its cost does not fit before more comes
            return now + self._interval
        return self._budget.purse.ready_at(cost, now)

    def _want(self, now: float) -> None:
        """Pass the demand for shared capacity to the share, and wake the thread that sends
        requests."""
        # An evicted instance demands nothing, even after the lease manager has deleted its record.
        waiting = self._shared_limits.nothing if self._evicted else self._demand
        self._budget.unreserved(waiting, self._turns.gathering(now), now)
        if self._share.next_call(now) < self._wakes_at:
            self._wake()

    def _wake(self) -> None:
        if self._asking is not None:
            self._asking.wake()

    # Publishing counts.

    def publish(self, source: Source) -> Publication:
        """Publish the counts of `source()` with the limit: a mapping of names
        (limiters.leases.COUNTERS) to numbers that only grow. They are sent with the requests that
        are sent anyway.

        A Batcher does so by itself. `end()` of the returned publication reads `source()` a last
        time. Thread-safe.
        """
        return self._tally.publish(source)

    def show_learned_costs(self, source: LearnedSource) -> Ending:
        """Shows what `source()` returns in `dispatcher limit show`, with the requests that are sent
        anyway. A Batcher does so by itself. Thread-safe."""
        return self._learned.add(source)

    def _unreported(self, read: tuple[float, ...], now: float) -> tuple[float, ...]:
        budget = self._budget
        shared, reserved = budget.shared_spending(now), budget.reserved_spending(now)
        own = spent_totals(self._shared_limits, shared, reserved)
        return self._tally.unreported(read, own | {"sync_failures": self._sync_failures})

    # Changing it.

    def set_shared_capacity(self, capacity: float | Mapping[str, float]) -> None:
        """Change the shared capacity for all instances. A raised capacity follows the `ramp`.
        Limits of several dimensions take a mapping by their names, as in `{"tokens": 90_000}`;
        `"requests/1s"` is the window of one second of a dimension that has several. Those that are
        not named stay.

        Raises LeaseManagerError if the lease manager cannot be reached.
        """
        if not isinstance(capacity, Mapping):
            capacity = shared_amount("capacity", capacity, expected=A_CHANGE)
        if self._manager is None:
            raise SharedCapacityNotProvisionedError(
                "there is no shared capacity to change: this SharedResource has no lease_manager"
            )
        own = self._terms
        changed = self._manager.set_terms(capacity=capacity, ramp=ramp_of(self._options.ramp))
        if not changed and own.layout:
            # The limit is gone: make it again, and change it.
            self._manager.set_terms(
                capacity=self._shared_limits,
                parts=partitions_of(own.capacity, own.factor),
                lease_time=own.lease / 1000,
            )
            self._manager.set_terms(capacity=capacity)
        elif not changed:
            self._manager.set_terms(
                capacity=capacity,
                factor=own.factor,
                period=own.period / 1000,
                lease_time=own.lease / 1000,
            )
        with self._lock:
            self._share.look_again(capacity)
            self._wake()

    def set_reserved_capacity(self, capacity: float | Mapping[str, float]) -> None:
        """Change the capacity that this instance may spend in addition to its share. With several
        dimensions it is a mapping; dimensions that are not named have none."""
        reserved = self._shared_limits.checked("capacity", capacity)
        with self._lock:
            self._reserved = reserved
            self._budget.reserve(reserved)
            self._want(self._clock.now())
            self._wake()
        if self._manager is None:  # otherwise the thread of its requests announces it
            self._announce.capacity(reserved)
        self._changed()

    # Starting and stopping.

    def wait_until_provisioned(self, timeout: Seconds = 5.0) -> float:
        """Wait until the lease manager has answered, which `start()` does not. Thread-safe.

        Return the seconds until something can be granted, usually 0. If there is no answer within
        `timeout`, raise LeaseManagerError with the problem of the last request; the limiter
        continues to send requests. LimiterStoppedError if it is stopped meanwhile.
        """
        timeout = seconds("timeout", timeout, zero=True)
        if not self._started:
            raise ImproperOrderError("this limiter is not started; call start() first")
        return self._provisioning.wait(timeout)

    def _provision(self) -> None:
        self._announce.capacity(self._reserved)
        self._changed()
        if self._manager is None:
            self._provisioning.answered(0.0)
            self._emitter.emit(events.PROVISION_DONE)
            return
        self._asking = Asking(
            self._next_request,
            partial(self._exchange, self._manager),
            lambda: self._stopped,
            self._last_request,
            self._failed,
        )
        self._asking.start()

    def _leave(self) -> None:
        self._provisioning.end()
        # The lease manager may not answer at all: leases expire by themselves.
        if self._asking is not None and not self._asking.end(self._terms.lease / 1000):
            facts = {"happening": "stopped-without-leases", "limit": self._name}
            _log.warning("%r does not answer; stopped without it", self._manager, extra=facts)

    # The thread that sends requests.

    def _next_request(self) -> tuple[Request | None, float | None]:
        """Return the request that is due, or how long to wait for one."""
        read = self._tally.read()  # without the lock, since it calls sources
        has_learned = self._learned.look(self._clock.now())
        self._line.tidy()
        with self._lock:
            now = self._clock.now()
            if has_learned:
                self._share.describe(with_costs(self._member, self._learned.costs))
            self._wakes_at = -1.0
            self._want(now)
            there = self._budget.there(now)
            held = self._partitions_held(now)
            due = self._share.next_call(now)
            request = None
            if due <= now:
                request = self._share.compose(now, self._unreported(read, now))
            self._wakes_at = due
            ends = self._share.until if held else float("inf")
            wait = min(due, ends) - now
        self._tell_capacity(held, there)
        return request, None if wait == float("inf") else max(0.0, wait)

    def _exchange(self, manager: LeaseManager, request: Request) -> bool:
        sent_at, asked = self._clock.now(), time.monotonic()
        try:
            reply = manager.sync(request)
            if not isinstance(reply, Reply):
                raise LeaseManagerError(f"{manager!r} gave {reply!r} in place of a Reply")
        except BaseException as error:  # after any error the work of this process goes on
            with self._lock:
                self._sync_failures += 1
                self._share.unanswered(self._clock.now())
            self._provisioning.failed(error)
            self._announce.lost(error, asked)
            return False
        self._sync_seconds.note(self._clock.now() - sent_at)
        self._receive(reply, sent_at)
        return True

    def _receive(self, reply: Reply, sent_at: float) -> None:
        share = self._share
        with self._lock:
            now = self._clock.now()
            if share.pending is not None and reply.counted:
                self._tally.confirm(share.pending.totals)
            news = share.answered(reply, sent_at, now)
            self._budget.follow_periods(now)
            self._evicted = self._evicted or reply.evicted
            self._refused = news.refused is not None
            if news.refused is not None:
                self._provisioning.failed(LeaseManagerError(self._announce.refusal(news.refused)))
            if news.disowned:
                share.tenure.until = now
                self._budget.leave(now)
                self._begin_share(share.terms)
            there = self._budget.there(now)
            held = self._partitions_held(now)
            missing = self._missing(reply)
        self._announce.reply(reply, news, missing)
        if reply.kind is Kind.ANSWER:
            self._provisioning.answered(reply.uncertain / 1000)
        self._tell_capacity(held, there)

    def _missing(self, reply: Reply) -> float:
        """Return how many partitions were requested and not granted."""
        return self._share.partitions_missing if reply.short else 0.0

    def _tell_capacity(self, held: float, there: AnyCost) -> None:
        self._announce.partitions(held)
        if self._announce.capacity(there + self._reserved):
            self._changed()

    def _last_request(self) -> tuple[Request | None, float | None]:
        """Return the next of the requests that return capacity at the end, or how long to wait for
        it. If the server had given this instance up meanwhile, its totals were not counted: send
        them a second time."""
        share, read = self._share, self._tally.read()
        with self._lock:
            now = self._clock.now()
            due = share.next_leave(now) if share.reply is not None or share.pending else math.inf
            unreported = self._unreported(read, now)
            if share.left and share.pending is None and unreported and not self._sent_twice:
                due = now
            if due > now:
                self._announce.capacity(self._reserved)
                return None, None if due == math.inf else due - now
            if share.pending is not None:
                return share.compose(now), None
            self._sent_twice = share.left
            return share.leave(now, unreported), None

    def _changed(self) -> None:
        super()._changed()
        if self._stopped:  # the slot of a call that has ended is returned
            self._wake()

    def _failed(self, error: Exception) -> None:
        self._broken = error
        self._provisioning.failed(error)
        self._provisioning.end()
        message = "no shared capacity is requested any more"
        facts = {"happening": "asking-broke", "limit": self._name}
        _log.critical(message, exc_info=error, extra=facts)
        self._emitter.emit(events.ERROR, 0, f"{message}: {error!r}", error)
