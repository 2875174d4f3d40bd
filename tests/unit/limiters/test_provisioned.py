"""ProvisionedResource: what it keeps of those who ask it."""

from __future__ import annotations

import pytest

from limiters import (
    ArgumentError,
    Costs,
    ExceedsCapacityError,
    InFlight,
    Limits,
    MemoryLeaseManager,
    ProvisionedResource,
    Rate,
    SharedResource,
)
from limiters._budgets.slots import LOOK_AGAIN
from limiters.testing import ManualClock


def test_c5_who_wants_nothing_any_more_is_in_nobodys_way() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    clock.advance(1)
    limiter.give_me(90, "dear")
    spent = limiter.grant(60, 60, "dear")
    spent.spend(60).started(clock.now())
    spent.close()
    assert limiter.grant(90, 90, "dear").amount == 0, "it waits, and the others with it"
    clock.advance(0.1)
    assert limiter.grant(5, 5, "cheap").amount == 0
    limiter.give_me(0, "dear")
    assert limiter.grant(5, 5, "cheap").amount == 5
    assert limiter.standing().demand == 0


@pytest.mark.parametrize("target", [-1, float("nan"), "much"])
def test_a_target_that_is_none_is_named(target: float) -> None:
    with pytest.raises(ValueError, match="target must be"):
        ProvisionedResource(100).give_me(target)


API = Limits(
    requests=Rate(60, per=6, also=[Rate(10, per=1)]), tokens=Rate(9_000, per=6), calls=InFlight(3)
)


def several(**changed: float) -> tuple[ProvisionedResource, ManualClock]:
    clock = ManualClock()
    limiter = ProvisionedResource(API, clock=clock)
    if changed:
        limiter.set_capacity(changed)
    limiter.start()
    return limiter, clock


def test_v1_a_limit_of_several_dimensions_says_what_it_allows() -> None:
    limiter, _ = several()
    assert limiter.limits == API
    assert limiter.max_capacity == limiter.capacity
    assert limiter.capacity == {"requests": 10, "tokens": 9_000, "calls": 3}
    assert limiter.burst == {"requests": 1, "tokens": 900, "calls": 3}
    assert limiter.period == 6.0
    assert repr(limiter) == f"ProvisionedResource({API!r})"


def test_the_period_of_calls_in_flight_alone_is_how_long_one_may_last() -> None:
    limiter = ProvisionedResource(Limits(calls=InFlight(20, max_operation_time=30)))
    assert (limiter.capacity, limiter.period) == (20, 30.0)


def test_v2_a_grant_gives_back_in_all_dimensions_what_was_not_spent() -> None:
    limiter, clock = several()
    grant = limiter.grant({"requests": 5, "tokens": 900, "calls": 5})
    assert grant.amount == {"requests": 1, "tokens": 900, "calls": 3}
    assert grant.fits({"requests": 1, "tokens": 500, "calls": 1})
    assert not grant.fits({"requests": 1, "tokens": 901})
    spend = grant.spend({"requests": 1, "tokens": 500, "calls": 1})
    assert limiter.grant({"tokens": 1, "calls": 1}).amount == Costs(), "nothing is left of either"
    grant.close()
    assert spend.started(clock.now())
    assert limiter.grant({"tokens": 1_000, "calls": 5}).amount == {"tokens": 400, "calls": 2}
    standing = limiter.standing()
    assert standing.spent_reserved == {"requests": 1, "tokens": 500, "calls": 1}
    assert (standing.reserved, standing.shared) == (limiter.capacity, Costs())


def test_n1_a_slot_is_free_when_the_call_has_ended_and_a_waiting_caller_is_woken() -> None:
    limiter, clock = several(calls=1)
    woken: list[float] = []
    limiter.add_wake_up(lambda: woken.append(clock.now()))
    grant = limiter.grant({"calls": 1})
    spend = grant.spend({"calls": 1})
    grant.close()
    assert spend.started(0.0)
    assert limiter.grant({"calls": 1}).amount == Costs()
    assert limiter.ready_at({"calls": 1}) == LOOK_AGAIN
    clock.advance(50)
    spend.ended(clock.now())
    assert woken == [50.0]
    assert limiter.grant({"calls": 1}).amount == {"calls": 1}


def test_v2_who_gathers_in_one_dimension_holds_nothing_of_another() -> None:
    limiter, clock = several()
    limiter.acquire({"tokens": 9_000})
    dear = limiter.grant({"requests": 1, "tokens": 5_000}, {"requests": 1, "tokens": 5_000}, "dear")
    assert dear.amount == {"requests": 1}
    dear.close()
    assert limiter.grant({"requests": 1}, {"requests": 1}, "cheap").amount == Costs(), "its turn"
    limiter.give_me(0, "dear")
    assert limiter.grant({"requests": 1}, {"requests": 1}, "cheap").amount == {"requests": 1}
    assert clock.now() == 0


def test_c9_capacities_change_by_dimension_and_shorter_windows_stay() -> None:
    limiter, _ = several(requests=120, calls=5)
    assert limiter.capacity == {"requests": 10, "tokens": 9_000, "calls": 5}
    assert [bound.capacity for bound in limiter.limits.bounds] == [120, 10, 9_000, 5]
    assert limiter.grant({"requests": 100, "calls": 9}).amount == {"requests": 1, "calls": 5}


@pytest.mark.parametrize(
    ("capacity", "message"),
    [
        (5, "capacity must say of which dimension it is, not 5; as in {'requests': 5}"),
        ({"toks": 5}, "capacity must be of requests, requests/1s, tokens and calls alone"),
        ({"toks": 5}, "did you mean tokens?"),
        ({"tokens/6s": 5}, "the longest window of tokens is called tokens"),
        ({}, "capacity must name a dimension"),
        ("tokens=5", "capacity must be a mapping such as {'requests': 60}, not 'tokens=5'"),
        ({"calls": 1.5}, r"capacity\['calls'\] must be a whole number, not 1.5"),
        (
            {"requests": 9},
            r"allow less in requests/1s \(10/1s\) than in requests \(9/6s\).*change both, as in "
            "requests=9,requests/1s=4.5",
        ),
        ({"requests/1s": 60}, r"allow less in requests/1s \(60/1s\) than in requests \(60/6s\)"),
        ({"tokens": 0}, r"capacity\['tokens'\] must be more than zero"),
    ],
)
def test_c9_a_capacity_that_is_none_changes_nothing(capacity: object, message: str) -> None:
    limiter, _ = several()
    with pytest.raises(ArgumentError, match=message):
        limiter.set_capacity(capacity)  # type: ignore[arg-type]
    assert limiter.limits == API


def test_c9_each_window_is_changed_by_its_own_name_and_the_others_stay() -> None:
    limiter, _ = several(**{"requests": 120, "requests/1s": 12})
    assert str(limiter.limits) == "requests=120/6s+12/1s,tokens=9000/6s,calls=3slots"
    limiter.set_capacity({"requests": 90})
    assert str(limiter.limits) == "requests=90/6s+12/1s,tokens=9000/6s,calls=3slots"


@pytest.mark.parametrize("capacity", [{"requests": 9}, {"requests/1s": 60}, {"requests/1s": 900}])
def test_c9_a_shared_limit_refuses_a_useless_window_in_the_same_words(
    capacity: dict[str, float],
) -> None:
    limiter, _ = several()
    shared = SharedResource(shared_capacity=API, lease_manager=MemoryLeaseManager())
    said = []
    with shared:
        shared.wait_until_provisioned()
        for change in (limiter.set_capacity, shared.set_shared_capacity):
            with pytest.raises(ArgumentError) as refused:
                change(capacity)
            said.append(str(refused.value))
    assert said[0] == said[1]


def test_an_error_of_a_cost_above_the_limit_names_the_window_that_allows_least() -> None:
    limiter, _ = several()
    with pytest.raises(ExceedsCapacityError, match="max_capacity of 10 of requests/1s;") as refused:
        limiter.acquire({"requests": 15})
    assert (refused.value.dimension, refused.value.window) == ("requests", "requests/1s")
    alone = ProvisionedResource(Limits(requests=Rate(60, per=6, also=[Rate(10, per=1)])))
    with alone, pytest.raises(ExceedsCapacityError, match=r"costs 15, .* of 10 of requests/1s;"):
        alone.acquire(15)
    with pytest.raises(ExceedsCapacityError, match="max_capacity of 9000 of tokens;") as refused:
        limiter.acquire({"tokens": 10_000})
    assert refused.value.window == ""


def test_a_limit_of_one_named_dimension_takes_both_kinds_of_cost() -> None:
    limiter = ProvisionedResource(Limits(tokens=Rate(100, burst=100)), clock=ManualClock())
    limiter.start()
    assert limiter.acquire(40)
    assert limiter.acquire({"tokens": 40})
    assert limiter.grant(30).amount == pytest.approx(20)
    limiter.set_capacity({"tokens": 50})
    assert limiter.capacity == 50


def test_events_have_costs_of_several_dimensions() -> None:
    limiter, _ = several()
    heard: list[object] = []
    limiter.add_listener(lambda event: heard.append((event.name, event.value)))
    limiter.give_me({"tokens": 5}, "somebody")
    limiter.set_capacity({"tokens": 90})
    limiter.stop()
    assert heard[:2] == [("target", {"tokens": 5}), ("capacity", limiter.capacity)]
