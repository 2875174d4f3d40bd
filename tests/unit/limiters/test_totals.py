"""Totals of instances are counted once each, whatever becomes of their requests."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from limiters import InFlight, Limits, Rate
from limiters._instance_share import InstanceShare
from limiters._stats.tally import Tally
from limiters.leases import COUNTERS, LimitView
from limiters.leases._bounds import terms_of_limits
from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.state import Registry
from limiters.leases._format import NEVER
from limiters.leases._messages import BoundTerms, Kind, Request, Terms
from limiters.leases._terms_change import BoundChange, LimitChange
from limiters.leases._totals import counters_of
from limiters.leases.protocol import view_of
from tests.examples import examples

TERMS = Terms.scalar(capacity=1_000.0, factor=100.0, period=1_000, lease=2_000)
LONG_MS = 10_000
"""Longer than the time after which an instance is given up, in milliseconds."""

PATIENT = replace(TERMS, lease=600_000)
"""Terms with which no instance is given up."""


class Worker:
    """An instance that does something now and then, and reports it as SharedResource does."""

    def __init__(self, name: str, terms: Terms = TERMS) -> None:
        self.share = InstanceShare(name, terms)
        self.tally = Tally()
        self.done = 0
        self.tally.publish(lambda: {"operations_done": self.done})

    def compose(self, now: float, *, leaving: bool = False) -> Request:
        unreported = self.tally.unreported(self.tally.read(), {})
        if leaving and self.share.pending is None:
            return self.share.leave(now, unreported)
        return self.share.compose(now, unreported)

    def exchange(self, limit: Coordinator, now: int, *, heard: bool = True) -> Request:
        """Sends what is due until it is answered; if it is not `heard`, once."""
        for _ in range(5):
            request = self.compose(now / 1000)
            reply = limit.sync(request, "server", now)
            if not heard:
                return request
            if reply.counted:
                self.tally.confirm(request.totals)
            news = self.share.answered(reply, now / 1000, now / 1000)
            if news.disowned:
                raise AssertionError("no other instance uses its identity")
            if reply.kind is Kind.ANSWER:
                return request
        raise AssertionError("it is sent back again and again")


def coordinator() -> Coordinator:
    """Return a server that was not used before, so that it grants immediately."""
    made = Coordinator(default_span=0)
    made.registry = Registry("server", NEVER)
    return made


def counted(limit: Coordinator) -> float:
    return limit.totals.counts[0] if limit.totals.counts else 0.0


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**32))
def test_each_thing_done_counts_once_whatever_is_lost_doubled_or_late(seed: int) -> None:
    random = Random(seed)
    limit = coordinator()
    workers = [Worker(f"w{number}", PATIENT) for number in range(4)]
    old: list[Request] = []
    now, before = 1_000_000, 0.0
    for _ in range(80):
        now += random.choice([50, 60, 500, 2_500, LONG_MS])
        worker = random.choice(workers)
        worker.done += random.choice([0, 1, 5])
        dice = random.random()
        if dice < 0.15:
            worker.compose(now / 1000)  # lost on its way there
        elif dice < 0.3:
            old.append(worker.exchange(limit, now, heard=False))
        elif dice < 0.4 and old:
            limit.sync(random.choice(old), "server", now)  # it comes again, late
        else:
            old.append(worker.exchange(limit, now))
        assert before <= counted(limit) <= sum(one.done for one in workers)
        before = counted(limit)
    for worker in workers:  # first what is under way, then what is left, in leaving
        for _ in range(2):
            now += 50
            worker.exchange(limit, now)
    assert counted(limit) == sum(one.done for one in workers)


def test_what_was_done_by_one_that_was_given_up_counts_when_it_comes_back() -> None:
    limit = coordinator()
    worker = Worker("w")
    worker.exchange(limit, 1_000)
    worker.done = 7
    Worker("another").exchange(limit, 1_500 + LONG_MS)
    Worker("another").exchange(limit, 1_500 + 2 * LONG_MS)
    # It is a newcomer again: what was counted before cannot be read.
    worker.exchange(limit, 1_600 + 2 * LONG_MS)
    worker.exchange(limit, 1_700 + 2 * LONG_MS)
    assert counted(limit) == 7
    worker.done = 8
    worker.exchange(limit, 1_800 + 2 * LONG_MS)
    assert counted(limit) == 8


def test_what_was_done_while_nothing_was_certain_counts_once() -> None:
    limit = coordinator()
    worker = Worker("w")
    worker.exchange(limit, 1_000)
    worker.done = 7
    limit.limit = None  # it is gone, and the registry says that something may be out
    for now in (1_500, 2_000, 2_500):
        worker.exchange(limit, now)
    assert counted(limit) == 7


def test_what_is_left_goes_with_the_last_request() -> None:
    limit = coordinator()
    worker = Worker("w")
    worker.exchange(limit, 1_000)
    worker.done = 3
    request = worker.compose(1.2, leaving=True)
    assert request.leaving
    limit.sync(request, "server", 1_200)
    assert counted(limit) == 3


def test_totals_outlive_another_server_and_other_terms_but_not_that_the_limit_is_deleted() -> None:
    limit = coordinator()
    worker = Worker("w")
    worker.exchange(limit, 1_000)
    worker.done = 3
    worker.exchange(limit, 1_500)
    limit.sync(Worker("b").compose(1.6), "another server", 1_600)
    change = LimitChange.scalar(capacity=500, factor=50, lease=4_000)
    assert limit.set_terms("another server", 1_700, "token", change)
    assert counted(limit) == 3
    assert limit.limit is not None
    view = view_of(limit.limit, limit.totals.counts, 1_800, 0)
    assert view is not None
    assert dict(zip(COUNTERS, view.totals, strict=False))["operations_done"] == 3
    assert limit.delete("another server", 1_900, "token")
    assert counted(limit) == 0


def test_what_each_dimension_spent_is_counted_under_its_name_and_never_under_another() -> None:
    limits = Limits(requests=Rate(100), tokens=Rate(1_000), calls=InFlight(5))
    terms = terms_of_limits(limits, factor=1.0, lease=2_000)
    limit = coordinator()
    worker = Worker("w", terms)
    worker.tally = Tally(counters_of(limits.dimensions))
    worker.tally.publish(lambda: {"spent_shared": 3, "spent_reserved of tokens": 70})
    worker.exchange(limit, 1_000)
    worker.exchange(limit, 1_500)
    assert looked(limit).done["spent_shared"] == 3
    assert looked(limit).done["spent_reserved of tokens"] == 70
    assert looked(limit).done["spent_shared of calls"] == 0
    bound = BoundChange(50.0, 1_000, BoundTerms.rate(50.0, 1_000).lasting)
    change = LimitChange((bound,), 1.0, 2_000, "tokens:start")
    assert limit.set_terms("server", 1_700, "token", change)
    assert looked(limit).done["spent_shared"] == 0


def looked(limit: Coordinator) -> LimitView:
    assert limit.limit is not None
    view = view_of(limit.limit, limit.totals.counts, 1_800, 0)
    assert view is not None
    return view


def test_a_source_that_ended_or_raises_keeps_its_last_totals() -> None:
    tally = Tally()
    said = {"operations_done": 2.0, "unknown": 9.0}
    one = tally.publish(lambda: said)

    def broken() -> dict[str, float]:
        raise RuntimeError

    tally.publish(broken)
    assert tally.read()[0] == 2
    said["operations_done"] = 5.0
    one.end()
    one.end()
    said["operations_done"] = 50.0
    assert tally.read()[0] == 5


def test_what_goes_back_is_reported_as_nothing() -> None:
    tally = Tally()
    said = {"throttled": 2.0}
    tally.publish(lambda: said)
    tally.confirm(tally.unreported(tally.read(), {}))
    said["throttled"] = 1.0
    assert tally.unreported(tally.read(), {}) == ()
