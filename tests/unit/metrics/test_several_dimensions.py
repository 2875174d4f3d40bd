"""Metrics of a limit of several dimensions: of each window and each number of calls in flight.
Those of a limit of one dimension are as they always were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from dispatcher.metrics import Options, parts_of
from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.limit_readings import read_limit
from dispatcher.metrics._names import Metric
from dispatcher.metrics.readings import Reading
from limiters import (
    InFlight,
    Limits,
    MemoryLeaseManager,
    ProvisionedResource,
    Rate,
    SharedResource,
)
from limiters.leases import BoundView, HoldingView, LimitView
from limiters.leases._bounds import terms_of_limits
from limiters.limits import MAX_BOUNDS
from tests.views import instance, limit
from tests.waiting import until

LIMITS = Limits(
    requests=Rate(600, per=60, also=[Rate(10, per=1)]),
    tokens=Rate(90_000, per=60),
    calls=InFlight(20),
)
BOUNDS = ["requests", "requests/1s", "tokens", "calls"]
CALL = {"requests": 1, "tokens": 800, "calls": 1}

Values = dict[tuple[Metric, tuple[str, ...]], Any]


def values_of(readings: Iterator[Reading]) -> Values:
    return {(one.metric, one.labels): one.value for one in readings}


def shown(limiter: SharedResource | ProvisionedResource) -> Values:
    """Return the metrics of a limiter in its process."""
    [part] = parts_of(limiter, Options(name="api"))
    return values_of(iter(part.read()))


def exported(limiter: SharedResource, *, members: bool = True) -> Values:
    """Return the metrics of a limit from the exporter."""
    return values_of(read_limit("api", looked(limiter), members=members))


def looked(limiter: SharedResource) -> LimitView:
    manager = limiter._manager
    assert manager is not None
    view = manager.look()
    assert view is not None
    return view


@contextmanager
def shared(limits: Limits | float, **options: Any) -> Iterator[SharedResource]:
    """Return a limiter, and end it."""
    with (
        closing(MemoryLeaseManager("api", lease_time=60)) as manager,
        SharedResource(
            shared_capacity=limits, lease_manager=manager, max_interval=0.05, **options
        ) as limiter,
    ):
        yield limiter


def of(values: Values, metric: Metric, *labels: str) -> dict[str, float]:
    """The values of a metric with these labels, by dimension."""
    return {
        found[-1]: value
        for (one, found), value in values.items()
        if one is metric and found[: len(labels)] == labels
    }


def test_a_process_shows_what_it_may_spend_of_each_window_and_each_number_of_calls() -> None:
    with shared(LIMITS, reserved_capacity={"requests": 60, "tokens": 900}) as limiter:
        limiter.give_me({"requests": 30, "tokens": 24_000, "calls": 5})
        until(lambda: of(shown(limiter), names.PARTITIONS, "api", "held").get("calls"))
        values = shown(limiter)
        most = {"requests": 660, "requests/1s": 11, "tokens": 90_900, "calls": 20}
        assert of(values, names.CAPACITY, "api", "max") == most
        reserved = {"requests": 60, "requests/1s": 1, "tokens": 900, "calls": 0}
        assert of(values, names.CAPACITY, "api", "reserved") == reserved
        held = of(values, names.CAPACITY, "api", "shared")
        assert [*held] == BOUNDS
        assert 0 < held["requests/1s"] <= 10 < held["tokens"]
        waiting = {"requests": 30, "requests/1s": 30, "tokens": 24_000, "calls": 5}
        assert of(values, names.DEMAND, "api") == waiting
        for state in ("held", "wanted"):
            parts = of(values, names.PARTITIONS, "api", state)
            assert [*parts] == BOUNDS
            assert all(0 <= one <= 100 for one in parts.values()), (state, parts)
        assert [*of(values, names.FAIR_SHARE, "api")] == BOUNDS


def test_v1_what_was_spent_counts_in_each_window_of_its_dimension() -> None:
    with shared(LIMITS, reserved_capacity={"tokens": 9_000}) as limiter:
        for _ in range(3):
            assert limiter.acquire({"requests": 1, "tokens": 80}, timeout=30)
        spent = {
            kind: of(shown(limiter), names.SPENT, "api", kind) for kind in ("shared", "reserved")
        }
        assert spent["shared"]["requests"] == spent["shared"]["requests/1s"] == 3
        assert spent["shared"]["tokens"] + spent["reserved"]["tokens"] == pytest.approx(240)
        assert spent["shared"]["calls"] == 0

        def told() -> bool:
            return sum(
                of(exported(limiter), names.CLUSTER_SPENT, "api", kind)["tokens"]
                for kind in ("shared", "reserved")
            ) == pytest.approx(240)

        limiter.give_me(CALL)
        until(told)
        by_kind = {
            kind: of(exported(limiter), names.CLUSTER_SPENT, "api", kind)
            for kind in ("shared", "reserved")
        }
        assert by_kind == spent


def test_n5_slots_are_busy_or_idle_in_a_process_and_also_free_in_the_cluster() -> None:
    with shared(LIMITS) as limiter:
        limiter.give_me({"requests": 4, "tokens": 3_200, "calls": 4})
        with limiter.reserve(CALL, timeout=5), limiter.reserve(CALL, timeout=5):
            slots = of_states(shown(limiter), names.SLOTS)
            assert slots["busy"] == 2
            assert slots["idle"] >= 0
            until(lambda: of_states(exported(limiter), names.CLUSTER_SLOTS)["busy"] == 2)
            slots = of_states(exported(limiter), names.CLUSTER_SLOTS)
            assert sum(slots.values()) == 20
            assert slots["overdue"] == 0
            assert slots["free"] > 0
        until(lambda: of_states(shown(limiter), names.SLOTS)["busy"] == 0)


def of_states(values: Values, metric: Metric) -> dict[str, float]:
    """The values of a metric, by state."""
    return {
        labels[1]: value
        for (one, labels), value in values.items()
        if one is metric and labels[2:] in ((), ("calls",))
    }


def test_the_exporter_shows_each_window_with_its_capacity_period_and_members() -> None:
    with shared(LIMITS) as limiter:
        limiter.give_me({"requests": 30, "tokens": 24_000, "calls": 5})
        until(lambda: of(exported(limiter), names.CLUSTER_DEMAND, "api").get("tokens"))
        values = exported(limiter)
        in_force = {"requests": 600, "requests/1s": 10, "tokens": 90_000, "calls": 20}
        assert of(values, names.CLUSTER_CAPACITY, "api", "shared") == in_force
        assert of(values, names.CLUSTER_PERIOD, "api") == {
            "requests": 60,
            "requests/1s": 1,
            "tokens": 60,
        }
        worth = {"requests": 6, "requests/1s": 0.1, "tokens": 900, "calls": 0.2}
        assert of(values, names.CLUSTER_PARTITION, "api") == pytest.approx(worth)
        member = limiter.standing().member
        for metric in (names.MEMBER_PARTITIONS, names.MEMBER_SHARE, names.MEMBER_DEMAND):
            assert [*of(values, metric, "api", member)] == BOUNDS
        for state in ("held", "free", "overdue"):
            assert [*of(values, names.CLUSTER_PARTITIONS, "api", state)] == BOUNDS
        # One of its instances waits for a permit, or none does: that is of all dimensions.
        assert (names.CLUSTER_WAITING, ("api",)) in values
        assert [*of(values, names.CLUSTER_WAITING_COST, "api")] == BOUNDS[:3]


def test_a_limit_of_one_bound_has_no_dimension_and_the_series_it_always_had() -> None:
    with shared(1_000.0, factor=100) as limiter:
        limiter.give_me(500)
        until(lambda: limiter.partitions)
        member = limiter.standing().member
        assert {(one.name, labels) for one, labels in shown(limiter)} == {
            *(
                (f"dispatcher_{counter}_cost_total", ("api", kind))
                for counter in ("spent", "refunded", "excess")
                for kind in ("shared", "reserved")
            ),
            *(("dispatcher_capacity", ("api", kind)) for kind in ("shared", "reserved", "max")),
            *(("dispatcher_partitions", ("api", state)) for state in ("held", "wanted")),
            ("dispatcher_limiter_info", ("api", member)),
            ("dispatcher_uncertain_seconds", ("api", "")),
            *(
                (f"dispatcher_{name}", ("api",))
                for name in (
                    *("demand", "fair_share", "permits_total", "permit_wait_seconds"),
                    *("permit_turn", "lease_clock_skew_seconds", "refused", "sync_seconds"),
                    *("sync_failures_total", "redis_up"),
                )
            ),
        }
        assert {(one.name, labels) for one, labels in exported(limiter)} == {
            *(
                (f"dispatcher_cluster_{name}", ("api", value))
                for name, values in (
                    ("capacity", ("shared", "reserved", "max")),
                    ("partitions", ("held", "free", "overdue")),
                    ("members", ("active", "overdue", "evicted")),
                    ("operations_total", ("done", "failed", "abandoned", "returned")),
                    ("batches_total", ("done", "failed", "abandoned")),
                    ("spent_cost_total", ("shared", "reserved")),
                    ("refunded_cost_total", ("shared", "reserved")),
                    ("excess_cost_total", ("shared", "reserved")),
                    ("uncertain_seconds", ("",)),
                )
                for value in values
            ),
            *(
                (f"dispatcher_cluster_{name}", ("api",))
                for name in (
                    *("period_seconds", "lease_seconds", "partition_cost", "demand"),
                    *("spent_last_period_cost", "clock_skew_seconds", "permit_waiters"),
                    *("permit_wait_cost", "permit_wait_seconds", "throttled_total"),
                    *("retries_total", "pauses_total", "sync_failures_total"),
                )
            ),
            *(
                (f"dispatcher_member_{name}", ("api", member))
                for name in (
                    *("partitions", "demand", "spent_last_period_cost", "fair_share"),
                    *("permit_wait_seconds", "silent_seconds"),
                )
            ),
        }


def test_calls_in_flight_alone_are_a_limit_of_one_bound_and_show_their_slots() -> None:
    with shared(Limits(calls=InFlight(3))) as limiter, limiter.reserve(1, timeout=5):
        assert of_states(shown(limiter), names.SLOTS)["busy"] == 1
        assert (names.CAPACITY, ("api", "max")) in shown(limiter)
        slots = of_states(exported(limiter), names.CLUSTER_SLOTS)
        assert sum(slots.values()) == 3


def test_a_limit_of_one_process_shows_each_of_its_windows() -> None:
    limiter = ProvisionedResource(LIMITS)
    limiter.start()
    limiter.give_me(CALL)
    with limiter.reserve(CALL, timeout=5):
        values = shown(limiter)
        most = {"requests": 600, "requests/1s": 10, "tokens": 90_000, "calls": 20}
        assert of(values, names.CAPACITY, "api", "max") == most
        assert of(values, names.CAPACITY, "api", "shared") == dict.fromkeys(BOUNDS, 0)
        spent = {"requests": 1, "requests/1s": 1, "tokens": 800, "calls": 1}
        assert of(values, names.SPENT, "api", "reserved") == spent
        assert of_states(values, names.SLOTS) == {"busy": 1, "idle": 19}
    limiter.stop()


def test_z6_what_reservations_were_settled_to_is_counted() -> None:
    limiter = ProvisionedResource(LIMITS)
    with limiter:
        for tokens in (300, 1_000):
            with limiter.reserve(CALL, timeout=5) as paid:
                paid.settle({"tokens": tokens})
        values = shown(limiter)
    assert of(values, names.REFUNDED, "api", "reserved")["tokens"] == 500
    assert of(values, names.EXCESS, "api", "reserved")["tokens"] == 200


def test_the_number_of_series_is_bounded_by_that_of_bounds() -> None:
    many = Limits(
        **{f"rate{number}": Rate(100 + number) for number in range(MAX_BOUNDS - 1)},
        calls=InFlight(5),
    )
    with shared(many) as limiter, shared(1_000.0, factor=100) as scalar:
        for one in (limiter, scalar):
            one.give_me({"calls": 1} if one is limiter else 1)
            until(lambda one=one: looked(one).instances)  # type: ignore[misc]
        assert len(shown(limiter)) <= MAX_BOUNDS * len(shown(scalar))
        assert len(exported(limiter)) <= MAX_BOUNDS * len(exported(scalar))
        names_ = {labels[-1] for one, labels in exported(limiter) if "dimension" in one.labels}
        assert names_ == {bound.dimension for bound in many.bounds}


def test_n2_slots_of_a_lost_instance_are_overdue_and_a_peak_is_at_most_what_is_held() -> None:
    terms = terms_of_limits(Limits(tokens=Rate(1_000), calls=InFlight(10)), 10.0, 5_000)

    def holding(tokens: float, calls: float, peak: float) -> tuple[HoldingView, ...]:
        return (
            HoldingView(dimension="tokens", held=tokens),
            HoldingView(dimension="calls", held=calls, spent=peak),
        )

    view = limit(
        instance("1", bounds=holding(0.5, 0.3, 4)),  # it had one more until a moment ago
        instance("2", bounds=holding(0.0, 0.2, 1)),
        instance("3", bounds=holding(0.0, 0.4, 4), lease_ms=-5),
        terms=terms,
        bounds=(
            BoundView(terms.bounds[0], 1_000, free=0.5, dimension="tokens"),
            BoundView(terms.bounds[1], 10, free=0.1, dimension="calls"),
        ),
    )
    values = values_of(read_limit("api", view, members=True))
    slots = of_states(values, names.CLUSTER_SLOTS)
    assert slots == pytest.approx({"busy": 4, "idle": 1, "overdue": 4, "free": 1})
    assert values[names.CLUSTER_MEMBERS, ("api", "overdue")] == 1
    fewer = replace(view.bounds[1], capacity=8.0, free=-0.1)  # more are held than there are now
    values = values_of(
        read_limit("api", replace(view, bounds=(view.bounds[0], fewer)), members=True)
    )
    assert of_states(values, names.CLUSTER_SLOTS)["free"] == 0
