"""A shared limit of several dimensions in one process: laws V1, V2, V7 and N, and what it says."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Literal

import pytest

from limiters import InFlight, LimiterConfig, Limits, MemoryLeaseManager, Rate, SharedResource
from limiters._costs import Costs
from limiters._sharing.grant import SharedGrant
from limiters._support.validation import ArgumentError
from limiters.errors import ExceedsCapacityError, ReserveTimeoutError
from limiters.events import CAPACITY, Event
from tests.waiting import refusal, until

LIMITS = Limits(
    requests=Rate(60, per=6, also=[Rate(10, per=1)]),
    tokens=Rate(9_000, per=6),
    calls=InFlight(2, max_operation_time=5),
)

PROMPT = {"requests": 1, "tokens": 400, "calls": 1}


@pytest.fixture
def manager() -> MemoryLeaseManager:
    return MemoryLeaseManager("llm")


@pytest.fixture
def limiter(manager: MemoryLeaseManager) -> Iterator[SharedResource]:
    with SharedResource(shared_capacity=LIMITS, lease_manager=manager) as made:
        made.wait_until_provisioned()
        yield made


def test_v1_what_could_be_had_is_of_each_dimension_that_of_its_smallest_window(
    limiter: SharedResource,
) -> None:
    assert limiter.max_capacity == {"requests": 10, "tokens": 9_000, "calls": 2}
    assert limiter.limits == LIMITS
    assert limiter.period == 6


def test_c10_people_see_a_hundred_partitions_unless_they_say_so(limiter: SharedResource) -> None:
    assert limiter.acquire({"tokens": 400}, timeout=5)
    assert 0 < limiter.partitions <= 100


def test_v7_what_costs_too_much_is_refused_by_the_name_of_the_dimension(
    limiter: SharedResource,
) -> None:
    with pytest.raises(ExceedsCapacityError, match="tokens"):
        limiter.acquire({"requests": 1, "tokens": 9_001})
    with pytest.raises(ArgumentError, match="requests, tokens and calls"):
        limiter.acquire({"token": 1})


def test_n1_n3_slots_are_free_again_when_a_block_ends(limiter: SharedResource) -> None:
    with limiter.reserve(PROMPT, timeout=5), limiter.reserve(PROMPT, timeout=5):
        assert not limiter.acquire({"requests": 1, "tokens": 9_000}, timeout=0)
        grant = limiter.grant(Costs({"calls": 1}))
        assert grant.amount == 0
        grant.close()
    with limiter.reserve(PROMPT, timeout=5):
        pass


@pytest.mark.parametrize("counts", ["start", "end"])
def test_n1_n3_n5_slots_of_calls_that_end_after_stop_go_to_others_as_they_end(
    manager: MemoryLeaseManager, counts: Literal["start", "end"]
) -> None:
    limits = Limits(
        tokens=Rate(100, counts=counts),
        calls=InFlight(3, max_operation_time=60),
    )
    call = {"calls": 1, "tokens": 1}
    others = set(threading.enumerate())  # limiters of other tests may wait for their calls
    one, other = (
        SharedResource(shared_capacity=limits, lease_manager=manager, max_interval=0.2)
        for _ in range(2)
    )
    with other:
        one.start()
        running = [one.reserve(call, timeout=20) for _ in range(3)]
        for reserved in running:
            reserved.__enter__()
        running.pop().__exit__()  # just before: it goes back with what is free
        one.stop()
        with other.reserve(call, timeout=20):
            with pytest.raises(ReserveTimeoutError), other.reserve(call, timeout=0.3):
                pass
            running.pop().__exit__()
            with other.reserve(call, timeout=20):
                running.pop().__exit__()
                with other.reserve(call, timeout=20):
                    assert other.standing().bounds[-1].slots_busy == 3
    until(lambda: "SharedResource" not in [it.name for it in {*threading.enumerate()} - others])


def left_in_another_dimension(limiter: SharedResource) -> float:
    """The part of the tokens that may go after a grant that lacked slots was closed."""
    with limiter.reserve(PROMPT, timeout=5), limiter.reserve(PROMPT, timeout=5):
        before = limiter.grant(Costs({"tokens": 100}))
        before.close()
        grant = limiter.grant(Costs(PROMPT), Costs(PROMPT), "one")
        assert not grant.fits(Costs(PROMPT))
        grant.close()
        limiter.give_me(Costs(), "one")
        after = limiter.grant(Costs({"tokens": 100}))
        after.close()
        assert isinstance(after.amount, Costs)
        assert isinstance(before.amount, Costs)
        return after.amount.amount("tokens") / before.amount.amount("tokens")


def test_v2_nothing_stays_set_aside_in_one_dimension_while_another_is_lacking(
    limiter: SharedResource,
) -> None:
    assert left_in_another_dimension(limiter) >= 1


def test_v2_a_grant_that_keeps_what_it_has_is_found(
    limiter: SharedResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SharedGrant, "close", lambda self: None)
    assert left_in_another_dimension(limiter) < 1


def test_v1_what_is_reserved_is_added_and_in_proportion_for_shorter_windows(
    manager: MemoryLeaseManager,
) -> None:
    reserved = {"requests": 6, "tokens": 600}
    with SharedResource(
        shared_capacity=LIMITS, lease_manager=manager, reserved_capacity=reserved
    ) as limiter:
        assert limiter.max_capacity == {"requests": 11, "tokens": 9_600, "calls": 2}
        limiter.set_reserved_capacity({"tokens": 100})
        assert limiter.max_capacity == {"requests": 10, "tokens": 9_100, "calls": 2}
        assert limiter.standing().reserved == {"tokens": 100}


def test_c9_a_capacity_is_changed_by_the_name_of_its_dimension(limiter: SharedResource) -> None:
    limiter.set_shared_capacity({"tokens": 18_000})
    assert limiter.max_capacity == {"requests": 10, "tokens": 18_000, "calls": 2}
    with pytest.raises(ArgumentError, match="requests, requests/1s, tokens or calls"):
        limiter.set_shared_capacity({"token": 18_000})


def test_c9_a_limit_that_was_deleted_is_made_again_with_the_change(
    manager: MemoryLeaseManager,
) -> None:
    limiter = SharedResource(shared_capacity=LIMITS, lease_manager=manager, parts=20)
    limiter.set_shared_capacity({"tokens": 18_000})
    view = manager.look()
    assert view is not None
    assert view.partitions == 20
    assert view.bounds[2].capacity == 18_000


def test_c9_one_dimension_with_a_name_is_made_again_with_its_name(
    manager: MemoryLeaseManager,
) -> None:
    limits = Limits(tokens=Rate(9, per=6))
    SharedResource(shared_capacity=limits, lease_manager=manager).set_shared_capacity(8)
    view = manager.look()
    assert view is not None
    assert [(one.dimension, one.capacity) for one in view.bounds] == [("tokens", 8)]


def test_c9_the_limit_of_an_instance_follows_the_windows_that_were_set(
    limiter: SharedResource, manager: MemoryLeaseManager
) -> None:
    assert limiter.acquire({"requests": 1, "tokens": 400}, timeout=5)
    manager.set_terms(capacity=Limits.parse("requests=50/5s+20/1s,tokens=9000/3s,calls=2slots"))
    limiter.give_me({"requests": 1, "tokens": 400})
    until(lambda: str(limiter.limits).startswith("requests=50/5s+20/1s,tokens=9000/3s,calls=2slot"))


def test_v1_events_have_costs_by_dimension(manager: MemoryLeaseManager) -> None:
    told: list[Event] = []
    limiter = SharedResource(shared_capacity=LIMITS, lease_manager=manager)
    limiter.add_listener(told.append, CAPACITY)
    with limiter:
        assert limiter.acquire({"requests": 1, "tokens": 400}, timeout=5)
    assert any(isinstance(event.value, Costs) and event.value for event in told)


@pytest.mark.parametrize(
    ("other", "says", "over"),
    [
        (
            Limits(requests=Rate(60, per=6), tokens=Rate(9_000, per=6)),
            "calls is no dimension here",
            "--start-over ",
        ),
        (
            Limits(
                requests=Rate(60, per=6, also=[Rate(10, per=1)]),
                tokens=Rate(9_000, per=3),
                calls=InFlight(2, max_operation_time=5),
            ),
            "tokens is a rate per 3 s here and a rate per 6 s there",
            "",
        ),
    ],
)
def test_v1_instances_that_disagree_learn_on_which_dimension(
    limiter: SharedResource, manager: MemoryLeaseManager, other: Limits, says: str, over: str
) -> None:
    assert limiter.acquire({"requests": 1, "tokens": 400}, timeout=5)
    with SharedResource(shared_capacity=other, lease_manager=manager) as second:
        refused = refusal(second)
        assert says in refused
        assert refused.endswith(f"dispatcher limit set llm {over}--shared-capacity {other}")


def test_v1_an_instance_with_another_order_of_dimensions_is_refused_with_both_orders(
    limiter: SharedResource, manager: MemoryLeaseManager
) -> None:
    assert limiter.acquire({"requests": 1, "tokens": 400}, timeout=5)
    other = Limits(**dict(sorted(LIMITS.items())))
    with SharedResource(shared_capacity=other, lease_manager=manager) as second:
        assert refusal(second).endswith(
            "this instance has the dimensions in another order (calls, requests, tokens) than that "
            "(requests, tokens, calls) of the limit 'llm'; write them in that one"
        )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"factor": 10}, "factor"),
        ({"period": 60}, "period"),
        ({"parts": 0}, "parts"),
        ({"parts": 10_001}, "parts"),
        ({"reserved_capacity": 5}, "reserved_capacity"),
        ({"reserved_capacity": {"token": 5}}, "reserved_capacity"),
        ({"reserved_capacity": {"calls": 0.5}}, "reserved_capacity"),
    ],
)
def test_v7_options_that_do_not_go_together_are_refused(
    manager: MemoryLeaseManager, options: dict[str, object], named: str
) -> None:
    with pytest.raises(ArgumentError, match=named):
        SharedResource(shared_capacity=LIMITS, lease_manager=manager, **options)  # type: ignore[arg-type]


def test_v1_a_configuration_of_several_limits_can_be_pickled_and_compared() -> None:
    config = LimiterConfig(url="redis://db", name="llm", shared_capacity=LIMITS, parts=20)
    assert pickle.loads(pickle.dumps(config)) == config
    assert "Limits(" in repr(config)
