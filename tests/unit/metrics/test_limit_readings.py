"""Metrics of a limit, and of one limiter that shares it."""

from __future__ import annotations

from typing import Any

import pytest

from dispatcher.metrics import Options
from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.limit_readings import read_limit
from dispatcher.metrics._kinds.limits import LimiterPart
from dispatcher.metrics._names import Metric
from dispatcher.metrics.readings import Reading
from limiters import MemoryLeaseManager, SharedResource
from limiters._stats.standing import BoundStanding, Standing
from limiters.leases import LimitView
from tests.views import instance, limit
from tests.waiting import until

Values = dict[tuple[Metric, tuple[str, ...]], Any]


def values_of(*readings: Reading) -> Values:
    return {(one.metric, one.labels): one.value for one in readings}


def read(view: LimitView, *, members: bool = True) -> Values:
    return values_of(*read_limit("orders", view, members=members))


def test_shares_are_partitions_with_fractions_that_add_up_to_all_of_them() -> None:
    view = limit(
        instance("1", held=1 / 3, share=1 / 3),
        instance("2", held=1 / 6, lease_ms=-5),
    )
    told = read(view)
    assert told[names.CLUSTER_PARTITIONS, ("orders", "held")] == pytest.approx(20 / 3)
    assert told[names.CLUSTER_PARTITIONS, ("orders", "overdue")] == pytest.approx(20 / 6)
    assert told[names.CLUSTER_PARTITIONS, ("orders", "free")] == pytest.approx(10)
    assert told[names.MEMBER_PARTITIONS, ("orders", "worker-1:1")] == pytest.approx(20 / 3)
    assert told[names.MEMBER_SHARE, ("orders", "worker-1:1")] == pytest.approx(20 / 3)
    assert (names.MEMBER_PARTITIONS, ("orders", "worker-2:1")) not in told


def test_instances_that_wait_for_a_permit_are_shown_with_its_cost_and_for_how_long() -> None:
    view = limit(
        instance("1", waits_for=500.0, waits_ms=2_100),
        instance("2", waits_for=200.0, waits_ms=300),
        instance("3"),
        instance("4", waits_for=900.0, waits_ms=9_000, lease_ms=-1),  # it may wait no longer
    )
    told = read(view)
    assert told[names.CLUSTER_WAITING, ("orders",)] == 2
    assert told[names.CLUSTER_WAITING_COST, ("orders",)] == 700
    assert told[names.CLUSTER_WAITING_LONGEST, ("orders",)] == 2.1
    waits = [told[names.MEMBER_WAIT, ("orders", f"worker-{number}:1")] for number in (1, 2, 3)]
    assert waits == [2.1, 0.3, 0]
    assert read(limit())[names.CLUSTER_WAITING_LONGEST, ("orders",)] == 0


def test_uncertainty_is_shown_with_its_cause_and_what_is_left_of_it() -> None:
    told = read(limit(uncertain_ms=4_200, cause="the server is another one", skew_ms=3_100))
    assert told[names.CLUSTER_UNCERTAIN, ("orders", "the server is another one")] == 4.2
    assert told[names.CLUSTER_SKEW, ("orders",)] == 3.1
    assert read(limit())[names.CLUSTER_UNCERTAIN, ("orders", "")] == 0


def test_the_terms_that_an_operator_can_change_are_shown() -> None:
    view = limit()
    told = read(view)
    assert told[names.CLUSTER_CAPACITY, ("orders", "max")] == view.terms.capacity
    assert told[names.CLUSTER_PARTITION, ("orders",)] == view.terms.factor
    assert told[names.CLUSTER_PERIOD, ("orders",)] == view.terms.period / 1000
    assert told[names.CLUSTER_LEASE, ("orders",)] == view.terms.lease / 1000


def test_a_limiter_is_known_to_the_lease_manager_by_the_name_that_its_metrics_have() -> None:
    manager = MemoryLeaseManager("orders")
    limiter = SharedResource(shared_capacity=10, lease_manager=manager)
    limiter.start()
    try:
        until(lambda: manager.look() is not None)
        view = manager.look()
        assert view is not None
        assert [one.label for one in view.instances] == [limiter.standing().member]
    finally:
        limiter.stop()


def test_sums_only_leave_out_each_instance() -> None:
    told = read(limit(instance("1", held=0.5)), members=False)
    assert not [metric for metric, _ in told if "member" in metric.labels]


def test_a_limiter_shows_all_that_its_standing_has(monkeypatch: pytest.MonkeyPatch) -> None:
    standing = Standing(
        "orders",
        shared=500.0,
        reserved=20.0,
        max=1_020.0,
        demand=900.0,
        bounds=(
            BoundStanding(
                "",
                shared=500.0,
                reserved=20.0,
                max=1_020.0,
                demand=900.0,
                spent_shared=70.0,
                spent_reserved=7.0,
                partitions_held=6.7,
                partitions_wanted=9.0,
                fair_share=6.5,
            ),
        ),
        member="worker-1:1",
        permits=7,
        permit_wait=2.1,
        turn=3,
        uncertain=4.2,
        uncertain_cause="the server is another one",
        clock_skew=3.1,
        refused=True,
    )
    limiter = SharedResource(shared_capacity=10, lease_manager=MemoryLeaseManager("orders"))
    part = LimiterPart(limiter, Options())
    monkeypatch.setattr(limiter, "standing", lambda: standing)
    told = values_of(*part.read())
    for metric, labels, value in (
        (names.LIMITER_INFO, ("orders", "worker-1:1"), 1),
        (names.CAPACITY, ("orders", "shared"), 500.0),
        (names.CAPACITY, ("orders", "reserved"), 20.0),
        (names.CAPACITY, ("orders", "max"), 1_020.0),
        (names.DEMAND, ("orders",), 900.0),
        (names.SPENT, ("orders", "shared"), 70.0),
        (names.SPENT, ("orders", "reserved"), 7.0),
        (names.PARTITIONS, ("orders", "held"), 6.7),
        (names.PARTITIONS, ("orders", "wanted"), 9.0),
        (names.FAIR_SHARE, ("orders",), 6.5),
        (names.PERMITS, ("orders",), 7),
        (names.PERMIT_WAIT, ("orders",), 2.1),
        (names.PERMIT_TURN, ("orders",), 3),
        (names.UNCERTAIN, ("orders", "the server is another one"), 4.2),
        (names.LEASE_SKEW, ("orders",), 3.1),
        (names.REFUSED, ("orders",), True),
    ):
        assert told[metric, labels] == value
