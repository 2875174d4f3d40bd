"""Limiters refuse what they would otherwise ignore, and take what the documents say they take."""

from __future__ import annotations

from typing import Any

import pytest

from limiters import (
    ArgumentError,
    InFlight,
    Limits,
    MemoryLeaseManager,
    ProvisionedResource,
    Rate,
    SharedResource,
)

SEVERAL = "requests=600/60s+10/1s,calls=20slots"


def shared(**options: Any) -> SharedResource:
    return SharedResource(lease_manager=MemoryLeaseManager("llm"), **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_capacity": Limits(a=Rate(5)), "period": 60}, "period must be left out with Limits"),
        ({"max_capacity": 5, "period": 86_401}, "period must be at most 86400 seconds, a day"),
        ({"max_capacity": "a=5/2d"}, "max_capacity must be a possible limit for a"),
        ({"max_capacity": "200/2d"}, "max_capacity must be at most 86400 seconds, a day"),
        ({"max_capacity": [5]}, "max_capacity must be a number, Limits, or a text such as tokens="),
        ({"max_capacity": "many"}, "max_capacity must be a number, or limits by dimension"),
    ],
)
def test_a_provisioned_resource_refuses_by_name(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError) as error:
        ProvisionedResource(**options)
    assert says in str(error.value)


def test_a_provisioned_resource_takes_a_text_as_a_shared_one_does() -> None:
    text: Any = SEVERAL
    assert ProvisionedResource(text).limits == shared(shared_capacity=text).limits
    assert ProvisionedResource(text).limits == Limits.parse(SEVERAL)
    one: Any = "200/1m"
    assert repr(ProvisionedResource(one)) == "ProvisionedResource(200, period=60)"
    assert shared(shared_capacity=one).limits == Limits.of(200, 60)
    assert str(Limits.of(200, 60)) == "200/60s"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shared_capacity": "a=5/2d"}, "a window must be at most 86400 seconds, a day"),
        (
            {"shared_capacity": Limits(a=Rate(5, per=1e-4))},
            "have windows of at least 0.001 seconds for a",
        ),
        (
            {"shared_capacity": "a=5/1s,b=1e-101/1s"},
            "shared_capacity['b'] must be at least 1e-100",
        ),
        ({"shared_capacity": SEVERAL, "period": 60}, "period must be left out with Limits"),
        ({"shared_capacity": SEVERAL, "factor": 10}, "factor must be left out with Limits"),
        (
            {"shared_capacity": SEVERAL, "ramp": (5, 1)},
            "ramp must be left out where a limit has several dimensions or windows, not (5, 1); "
            "an operator gives one to each, as in dispatcher limit set NAME",
        ),
        (
            {"shared_capacity": SEVERAL, "reserved_capacity": "many"},
            "reserved_capacity must be a number, or amounts by dimension as in requests=10,",
        ),
    ],
)
def test_a_shared_resource_refuses_by_name(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError) as error:
        shared(**options)
    assert says in str(error.value)


def test_what_is_reserved_may_be_a_text_as_costs_are() -> None:
    text: Any = "requests=5,calls=1"
    made = shared(shared_capacity=Limits.parse(SEVERAL), reserved_capacity=text)
    assert made._options.reserved_capacity == {"requests": 5, "calls": 1}


def test_a_shared_window_is_never_shorter_than_declared() -> None:
    limits = Limits(a=Rate(5, per=0.0014, counts="end", max_operation_time=0.0021), b=InFlight(2))
    terms = shared(shared_capacity=limits)._terms
    assert [one.period for one in terms.bounds] == [2, 60_000]
    assert terms.bounds[0].running == 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Rate(5, also=Rate(1, per=0.1)), "also must be a list of rates, one a window"),  # type: ignore[arg-type]
        (lambda: Rate(5, also=5), "also must be a list of rates, one a window, not 5; as in also="),  # type: ignore[arg-type]
        (lambda: Rate(5, also=[5]), "also must hold a Rate for each further window, not 5"),  # type: ignore[list-item]
        (lambda: Rate(5, per=86_401), "per must be at most 86400 seconds, a day"),
        (
            lambda: InFlight(5, max_operation_time=86_401),
            "max_operation_time must be at most 86400 seconds",
        ),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(make: Any, says: str) -> None:
    with pytest.raises(ArgumentError) as error:
        make()
    assert says in str(error.value)
