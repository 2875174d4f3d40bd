"""LimiterConfig: what a limiter is made of, as plain values."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from limiters import LimiterConfig, MemoryLeaseManager, SharedResource
from limiters._sharing.options import SharedResourceOptions
from limiters._support.options import options_of
from limiters.leases._messages import Reply, Request

MINUTE = timedelta(minutes=1)


def test_it_travels_and_builds_the_limiter_it_describes() -> None:
    config = LimiterConfig(
        url="redis://:secret@db:6379/0", name="orders", shared_capacity=20_000, factor=100
    )

    arrived = pickle.loads(pickle.dumps(config))

    assert arrived == config
    assert hash(arrived) == hash(config)
    assert arrived.build().max_capacity == 20_000


def test_its_repr_shows_no_secret() -> None:
    config = LimiterConfig(
        url="redis://user:secret@db:6379/0?password=secret", name="orders", shared_capacity=5
    )

    assert (
        repr(config) == "LimiterConfig(url='redis://db:6379/0', name='orders', shared_capacity=5)"
    )


def test_a_subclass_may_require_more() -> None:
    @dataclass(frozen=True, kw_only=True, repr=False)
    class RegionalConfig(LimiterConfig):
        region: str

    config = RegionalConfig(region="north", reserved_capacity=5)

    assert repr(config) == "LimiterConfig(reserved_capacity=5, region='north')"


def test_numbers_and_durations_of_any_kind_make_the_same() -> None:
    written: dict[str, Any] = {
        "reserved_capacity": Decimal(5),
        "weight": Fraction(2),
        "ramp": (Decimal(9), MINUTE),
    }

    config = LimiterConfig(**written)

    assert config == LimiterConfig(reserved_capacity=5, weight=2, ramp=(9, 60))
    assert repr(config) == "LimiterConfig(reserved_capacity=5.0, weight=2.0, ramp=(9.0, 60.0))"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"shared_capacity": 5}, "url must say"),
        ({"name": "orders"}, "url must say"),
        ({"url": 5, "name": "a", "shared_capacity": 5}, "url must be a str"),
        ({"url": "http://db", "name": "a", "shared_capacity": 5}, "url"),
        ({"url": "redis://db", "shared_capacity": 5}, "name"),
        (
            {"url": "redis://db", "name": "a"},
            "shared_capacity must be more than zero where a Redis",
        ),
        ({"url": "redis://db", "name": "a", "shared_capacity": -5}, "shared_capacity"),
        ({"url": "redis://db", "name": "a", "shared_capacity": 50_000, "factor": 1}, "factor"),
        ({}, "reserved_capacity must be more than zero where shared_capacity is 0"),
        ({"reserved_capacity": 5, "weight": 0}, "weight"),
    ],
)
def test_wrong_values_are_refused_where_it_is_made(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named) as caught:
        LimiterConfig(**given)

    for unknown in ("url_or_client", "lease_manager", "name and shared_capacity"):
        assert unknown not in str(caught.value), "a program that shows it may give it another name"


class NotingManager(MemoryLeaseManager):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.noted: list[Request] = []

    def sync(self, request: Request) -> Reply:
        self.noted.append(request)
        return super().sync(request)


def test_an_option_is_sent_to_the_coordinator_if_a_request_has_a_field_of_its_name() -> None:
    """So no other option may be called like something that an instance says of itself."""
    assert set(options_of(Request)) & set(options_of(SharedResourceOptions)) == {"weight"}
    manager = NotingManager("orders")
    with SharedResource(shared_capacity=10, weight=2.5, lease_manager=manager) as limiter:
        limiter.wait_until_provisioned()
    assert {request.weight for request in manager.noted} == {2_500}
