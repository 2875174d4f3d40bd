"""A SharedResource reports on its limit: in the log, and to callers who wait for its start."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from limiters import (
    Event,
    InFlight,
    LeaseManagerError,
    Limits,
    MemoryLeaseManager,
    Rate,
    SharedResource,
)
from limiters.testing import ManualClock
from tests.driven import Driven
from tests.waiting import until


def said(caplog: pytest.LogCaptureFixture, happening: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "happening", "") == happening
    ]


def test_c9_a_changed_limit_says_which_of_its_terms_were_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock(100.0)
    manager = MemoryLeaseManager("orders", lease_time=2, clock=clock)
    driven = Driven(manager=manager, clock=clock)
    driven.give_me(100)
    manager.set_terms(lease_time=4, period=2)
    driven.run(1.0)
    manager.set_terms(capacity=500)
    driven.run(1.0)
    manager.set_terms(capacity=500)  # as before: nothing to say
    driven.run(1.0)
    assert said(caplog, "terms-changed") == [
        "limit 'orders' was changed: period 2 (was 1), lease time 4 (was 2)",
        "limit 'orders' was changed: shared capacity 500 (was 1000)",
    ]
    (uncertain,) = said(caplog, "uncertain")
    assert uncertain.startswith("limit 'orders' grants nothing new for ")
    assert uncertain.endswith(": an operator changed the lease or the period")


LIMITS = Limits(requests=Rate(60, per=6, also=[Rate(20, per=1)]), calls=InFlight(4))


def test_c9_a_changed_limit_of_several_dimensions_names_those_that_were_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    manager = MemoryLeaseManager("api")
    with SharedResource(shared_capacity=LIMITS, lease_manager=manager) as limiter:
        limiter.give_me({"requests": 1})
        limiter.wait_until_provisioned()
        manager.set_terms(capacity={"requests/1s": 10, "calls": 2})
        until(lambda: bool(said(caplog, "terms-changed")))
    assert said(caplog, "terms-changed") == [
        "limit 'api' was changed: capacity of requests/1s 10 (was 20), capacity of calls 2 (was 4)"
    ]
    [record] = [one for one in caplog.records if getattr(one, "happening", "") == "terms-changed"]
    assert vars(record)["capacity"] == {"requests": 60, "requests/1s": 10, "calls": 2}


def test_an_instance_with_other_capacities_names_them_and_the_command(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = MemoryLeaseManager("api")
    other = Limits(requests=Rate(30, per=6, also=[Rate(20, per=1)]), calls=InFlight(8))
    with (
        SharedResource(shared_capacity=LIMITS, lease_manager=manager) as first,
        SharedResource(shared_capacity=other, lease_manager=manager) as second,
    ):
        first.wait_until_provisioned()
        second.give_me({"requests": 1})
        until(lambda: bool(said(caplog, "other-terms")))
    # The one that comes first makes the limit; the other one follows.
    [line] = said(caplog, "other-terms")
    assert "capacity of requests " in line
    assert "capacity of calls " in line
    commands = [
        f"limit set api --shared-capacity requests={one}/6s+20/1s,"
        f"calls={two}slots:max_operation_time=60s"
        for one, two in ((30, 8), (60, 4))
    ]
    assert line.endswith(tuple(commands))


def test_the_events_of_a_limit_of_several_dimensions_have_costs_as_values() -> None:
    heard: list[Event] = []
    limiter = SharedResource(shared_capacity=LIMITS, lease_manager=MemoryLeaseManager("api"))
    limiter.add_listener(heard.append)
    with limiter:
        limiter.give_me({"requests": 3, "calls": 2})
        until(lambda: any(one.name == "allocated" for one in heard))
    values = {one.name: one.value for one in heard}
    assert values["created-limit"] == {"requests": 20, "calls": 4}
    capacities: list[Any] = [one.value for one in heard if one.name == "capacity" and one.value]
    assert capacities
    assert all(one.keys() <= {"requests", "calls"} for one in capacities)


def test_c11_who_waits_for_the_start_learns_that_the_limit_has_another_lease() -> None:
    manager = MemoryLeaseManager("orders", lease_time=2)
    with SharedResource(shared_capacity=100, lease_manager=manager, period=1) as one:
        assert one.wait_until_provisioned() == 0
        with SharedResource(shared_capacity=100, lease_manager=manager, period=60) as other:
            until(lambda: other.standing().refused)
            with pytest.raises(LeaseManagerError, match="limit set orders --lease-time 2 --period"):
                other.wait_until_provisioned(timeout=0)
