"""What a SharedResource says of its limit: in the log, and to those who wait for its start."""

from __future__ import annotations

import logging

import pytest

from limiters import LeaseManagerError, MemoryLeaseManager, SharedResource
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


def test_c11_who_waits_for_the_start_is_told_that_the_limit_has_another_lease() -> None:
    manager = MemoryLeaseManager("orders", lease_time=2)
    with SharedResource(shared_capacity=100, lease_manager=manager, period=1) as one:
        assert one.wait_until_provisioned() == 0
        with SharedResource(shared_capacity=100, lease_manager=manager, period=60) as other:
            until(lambda: other.standing().refused)
            with pytest.raises(LeaseManagerError, match="limit set orders --lease-time 2 --period"):
                other.wait_until_provisioned(timeout=0)
