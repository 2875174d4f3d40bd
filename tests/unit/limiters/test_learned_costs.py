"""Instances of a limit show their learned costs: bounded, and no more often than they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limiters import MemoryLeaseManager, ProvisionedResource, SharedResource
from limiters._instance_share import InstanceShare
from limiters._sharing.learned_notes import MIN_INTERVAL, LearnedNotes
from limiters._support.learned_cost import LONGEST_KIND, MOST_COSTS, LearnedCost
from limiters.leases._format import MAX_TEXT
from limiters.leases._learned_costs import LearnedKindView, combined, costs_below, with_costs
from limiters.leases._messages import Terms, fault_of
from limiters.limiter import ShowsLearnedCosts
from tests.examples import examples

SMALL = LearnedCost("small", "tokens", 1_034, 200, cold=False)

COSTS = st.builds(
    LearnedCost,
    kind=st.text(),
    dimension=st.text(max_size=40),
    estimate=st.floats(1e-100, 1e100),
    settled=st.integers(1, 10**30),
    cold=st.booleans(),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(COSTS, max_size=30))
def test_any_costs_fit_into_a_request_and_are_read_as_they_were_written(
    costs: list[LearnedCost],
) -> None:
    label = with_costs("a-host:1", costs)
    assert fault_of(replace(share().compose(0.0), label=label)) is None
    assert len(label.encode()) <= MAX_TEXT
    assert label.split("\n")[0] == "a-host:1"
    read = costs_below(label)
    assert len(read) == label.count("\n") <= MOST_COSTS, "a kind cannot make lines of its own"
    for one, known in zip(read, costs, strict=False):
        assert one.estimate == pytest.approx(known.estimate, rel=1e-3)
        assert one.cold == known.cold
        assert len(one.kind) <= LONGEST_KIND
        assert one.kind.isprintable()
        assert one.dimension.isprintable()


@settings(max_examples=examples(200), deadline=None)
@given(st.text() | st.lists(st.text("0123456789.e+-naif\t\n\x1b")).map("\n".join))
def test_anything_may_be_stored_below_a_label(stored: str) -> None:
    for one in costs_below(stored):
        assert 0 <= one.estimate <= 1e100
        assert one.settled >= 0
        assert one.kind.isprintable()


def test_a_long_label_leaves_room_for_nothing() -> None:
    assert with_costs("h" * MAX_TEXT, [SMALL]) == "h" * MAX_TEXT


def test_of_many_costs_the_first_ones_are_shown() -> None:
    costs = [replace(SMALL, kind=str(number)) for number in range(100)]
    read = costs_below(with_costs("host:1", costs))
    assert [one.kind for one in read] == [str(number) for number in range(MOST_COSTS)]


def test_what_instances_say_is_combined_by_kind_and_dimension() -> None:
    other = replace(SMALL, estimate=900, settled=10, cold=True)
    calls = replace(SMALL, dimension="requests", settled=1)
    assert combined([[SMALL, calls], [other], []]) == [
        LearnedKindView("small", "tokens", 900, 1_034, settled=210, instances=2, cold=1),
        LearnedKindView("small", "requests", 1_034, 1_034, settled=1, instances=1, cold=0),
    ]
    [twice] = combined([[SMALL, other]])
    assert twice.instances == 1, "two Batchers of one instance"


class Source:
    """Learned costs that change; counts how often they are read."""

    def __init__(self, *costs: LearnedCost) -> None:
        self.costs = costs
        self.reads = 0

    def __call__(self) -> Sequence[LearnedCost]:
        self.reads += 1
        return self.costs


def test_a_change_is_shown_if_it_is_visible_and_not_more_often_than_in_some_seconds() -> None:
    notes, source = LearnedNotes(), Source(SMALL)
    ending = notes.add(source)
    assert notes.look(0.0)
    assert notes.costs == [SMALL]

    source.costs = (replace(SMALL, estimate=2_000),)
    assert not notes.look(MIN_INTERVAL - 0.1)
    assert source.reads == 1
    assert notes.look(MIN_INTERVAL)
    assert notes.costs == [*source.costs]

    source.costs = (replace(SMALL, estimate=2_050, settled=205),)
    assert not notes.look(2 * MIN_INTERVAL), "so little is not visible"
    assert not notes.look(2 * MIN_INTERVAL + 0.1)
    assert source.reads == 3

    source.costs = (replace(SMALL, estimate=2_050, settled=205, cold=True),)
    assert notes.look(3 * MIN_INTERVAL)
    ending.end()
    ending.end()
    assert notes.look(4 * MIN_INTERVAL)
    assert notes.costs == []
    assert source.reads == 4
    assert not notes.look(5 * MIN_INTERVAL)


def test_a_source_that_raises_is_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    notes, calls = LearnedNotes(), []

    def source() -> Sequence[LearnedCost]:
        calls.append(1)
        raise ValueError("mine")

    notes.add(source)
    notes.add(Source(SMALL))
    assert notes.look(0.0)
    assert notes.look(MIN_INTERVAL) is False
    assert len(calls) == 1
    assert "a source of learned costs raised" in caplog.text


def test_what_is_new_makes_no_request_due() -> None:
    one = share()
    one.compose(0.0)
    before = one.next_call(0.0)
    one.describe(with_costs("host:1", [SMALL]))
    assert one.next_call(0.0) == before
    assert one.pending is not None
    assert one.pending.label == "host:1", "a request is sent again as it was"


def test_only_what_is_shared_shows_what_was_learned() -> None:
    manager = MemoryLeaseManager()
    assert isinstance(SharedResource(shared_capacity=1, lease_manager=manager), ShowsLearnedCosts)
    assert not isinstance(ProvisionedResource(1), ShowsLearnedCosts)


def share() -> InstanceShare:
    return InstanceShare("a", Terms.scalar(1_000, 100, 1_000, 5_000), label="host:1")
