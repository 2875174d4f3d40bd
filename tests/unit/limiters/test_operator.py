"""An operator changes a limit of several dimensions; what is wrong is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

from limiters import ArgumentError, InFlight, Limits, Rate
from limiters.leases._bounds import limits_of_terms, terms_of_limits
from limiters.leases._messages import Terms, partitions_of
from limiters.leases._operator import TermsChange

LIMITS = Limits.parse("requests=600/60s+10/1s,tokens=90000/60s,calls=20slots")
TERMS = terms_of_limits(LIMITS, 6, 5_000)


def changed(known: Terms = TERMS, **change: Any) -> str:
    """Return the limit after these changes."""
    return str(limits_of_terms(TermsChange(**change).of(known).applied_to(known)))


@pytest.mark.parametrize(
    ("capacity", "after"),
    [
        ("tokens=120000", "requests=600/60s+10/1s,tokens=120000/60s,calls=20slots"),
        ("tokens=120000/30s", "requests=600/60s+10/1s,tokens=120000/30s,calls=20slots"),
        ("tokens=120000/1m", "requests=600/60s+10/1s,tokens=120000/60s,calls=20slots"),
        ("requests=500", "requests=500/60s+10/1s,tokens=90000/60s,calls=20slots"),
        ("requests=12/1s", "requests=600/60s+12/1s,tokens=90000/60s,calls=20slots"),
        ("requests/1s=12", "requests=600/60s+12/1s,tokens=90000/60s,calls=20slots"),
        ("requests=5/1s+60/6s", "requests=60/6s+5/1s,tokens=90000/60s,calls=20slots"),
        ("calls=30", "requests=600/60s+10/1s,tokens=90000/60s,calls=30slots"),
        (
            "calls=30slots:max_operation_time=5s",
            "requests=600/60s+10/1s,tokens=90000/60s,calls=30slots:max_operation_time=5s",
        ),
        (
            {"requests/1s": 12, "calls": 3},
            "requests=600/60s+12/1s,tokens=90000/60s,calls=3slots",
        ),
        (
            Limits.parse("requests=60/6s+5/1s,tokens=9/6s,calls=2slots"),
            "requests=60/6s+5/1s,tokens=9/6s,calls=2slots",
        ),
        (
            Limits.parse("calls=2slots,tokens=9/6s,requests=60/6s+5/1s"),
            "requests=60/6s+5/1s,tokens=9/6s,calls=2slots",
        ),
    ],
)
def test_c9_what_is_not_named_stays(capacity: Any, after: str) -> None:
    assert changed(capacity=capacity) == after


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"capacity": "tokns=5"}, "or calls, not 'tokns=5'; did you mean tokens?"),
        ({"capacity": "disk=5"}, "must name requests, tokens or calls, not 'disk=5'; for other"),
        ({"capacity": {"tokns": 5}}, "must be of requests, requests/1s, tokens or calls, not"),
        ({"capacity": {"tokns": 5}}, "not 'tokns'; did you mean tokens?"),
        ({"capacity": [5]}, "must be a number, or a mapping such as {'tokens': 120000}, not [5]"),
        ({"capacity": "500/60s"}, "must be a number where dimensions have no names, not '500/60s'"),
        ({"capacity": "500/60s"}, "its window is the period, 60 seconds"),
        ({"capacity": "requests=600/60s+12"}, "must say what 12 counts"),
        ({"capacity": "tokens=5:max_operation_time=9s"}, "max_operation_time must be left out"),
        ({"capacity": "calls=0.5"}, "must be a whole number for calls"),
        ({"capacity": 5}, "must say of which dimension it is, requests, requests/1s, tokens or ca"),
        ({"capacity": "requests=8"}, "must allow less in requests/1s (10/1s) than in requests (8/"),
        ({"capacity": {"requests": 10}}, "change both, as in requests=10,requests/1s=5"),
        ({"capacity": {"calls": 2.5}}, "must be a whole number for calls, not 2.5"),
        ({"capacity": "tokens=20slots"}, "must be an amount in a window for tokens, as in tokens"),
        ({"capacity": "calls=5/60s"}, "must be a number of calls in flight for calls, as in calls"),
        ({"capacity": "tokens=5/60s:burst=4"}, "must leave out the burst of tokens"),
        ({"capacity": "tokens=5/60s:counts=end"}, "must leave counts of tokens as it is"),
        ({"capacity": "calls=5slots:strict=no"}, "must leave strict of calls as it is"),
        ({"capacity": "requests=5/30s"}, "it is requests=600/60s+10/1s now"),
        ({"capacity": "tokens=5/60s+2/1s"}, "must have windows that tokens has, or all of them"),
        ({"period": 30}, "must be left out where dimensions have names, not 30.0; a window is"),
        ({"capacity": "tokens=100", "ramp": {"tokns": 5}}, "must be of requests, requests/1s"),
    ],
)
def test_what_the_limit_cannot_become_is_refused_by_its_dimension(
    change: dict[str, Any], says: str
) -> None:
    with pytest.raises(ArgumentError) as error:
        changed(**change)
    assert says in str(error.value)


def test_calls_that_count_from_their_end_keep_doing_so() -> None:
    known = terms_of_limits(Limits.parse("a=9/6s+2/1s:counts=end:max_operation_time=30s"), 1, 5_000)
    same = "a=9/6s+3/1s:counts=end:max_operation_time=30s"
    assert changed(known, capacity="a=3/1s") == same
    longer = "a=9/6s+3/1s:counts=end:max_operation_time=40s"
    assert changed(known, capacity="a=9/6s+3/1s:counts=end:max_operation_time=40s") == longer


def test_one_dimension_with_a_name_is_changed_by_a_number_too() -> None:
    known = terms_of_limits(Limits(calls=InFlight(3)), 1, 5_000)
    assert changed(known, capacity=5) == "calls=5slots"
    assert changed(known, capacity="calls=5") == "calls=5slots"
    with pytest.raises(ArgumentError, match="be a whole number for calls"):
        changed(known, capacity=2.5)


def test_a_limit_without_names_is_changed_by_a_number() -> None:
    known = Terms.scalar(100.0, 1.0, 1_000, 5_000)
    with pytest.raises(ArgumentError, match="be a number: the limit has one dimension"):
        changed(known, capacity="tokens=5")
    with pytest.raises(ArgumentError, match="be a number: the limit has one dimension"):
        changed(known, capacity={"tokens": 5})


def test_other_dimensions_are_a_whole_change_that_keeps_the_lease() -> None:
    change = TermsChange(capacity=Limits(reads=Rate(5), calls=InFlight(2))).of(TERMS)
    assert change.is_whole
    assert (change.lease, change.factor) == (5_000, 0.05)
    assert str(limits_of_terms(change.applied_to(TERMS))) == "reads=5/1s,calls=2slots"


@pytest.mark.parametrize(
    ("change", "partitions"),
    [
        ({"parts": 25}, 25),
        ({"parts": 25, "capacity": "requests=900"}, 25),
        ({"capacity": "requests=900"}, 100),
        ({"capacity": {"requests": 300, "tokens": 5}}, 100),
        ({"capacity": Limits.parse("requests=60/6s+5/1s,tokens=9/6s,calls=2slots")}, 100),
        ({"capacity": Limits(reads=Rate(5)), "parts": 10}, 10),
        ({"lease_time": 9}, 100),
    ],
)
def test_c10_a_limit_of_several_dimensions_keeps_its_number_of_partitions(
    change: dict[str, Any], partitions: int
) -> None:
    """Unless an operator gives another one."""
    terms = TermsChange(**change).of(TERMS).applied_to(TERMS)
    assert partitions_of(terms.capacity, terms.factor) == partitions


def test_c10_a_limit_of_one_number_has_parts_too() -> None:
    known = Terms.scalar(100.0, 1.0, 1_000, 5_000)
    assert TermsChange(parts=20).of(known).applied_to(known).factor == 5
    assert TermsChange(parts=20, capacity=400).of(known).applied_to(known).factor == 20
    assert TermsChange(capacity=400).of(known).applied_to(known).factor == 1
    new = TermsChange(parts=20, capacity=400, period=1, lease_time=5).of(None)
    assert new.applied_to(None).factor == 20
    with pytest.raises(ArgumentError, match="factor must be left out where parts is given"):
        TermsChange(parts=20, factor=5).of(known)
    with pytest.raises(ArgumentError, match="parts must be at most 10,000"):
        TermsChange(parts=10_001)


def test_c9_a_ramp_without_a_capacity_is_refused() -> None:
    with pytest.raises(ArgumentError, match="ramp must go with a capacity, not 5; it is how fast"):
        changed(ramp=5)
