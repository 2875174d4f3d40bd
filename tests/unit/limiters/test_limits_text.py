"""Limits as a text: what is written can be read again; what means nothing is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiters import ArgumentError, InFlight, LimiterConfig, Limits, Rate
from limiters._limits_text import EXAMPLE
from limiters.limits import read_limits, seconds

NAMES = st.from_regex(r"[a-z][a-z_.-]{0,8}", fullmatch=True)
AMOUNTS = st.floats(1e-6, 1e20)
DURATIONS = st.integers(2, 86_400)


@st.composite
def rates(draw: st.DrawFn) -> Rate:
    capacity, per = draw(AMOUNTS), draw(DURATIONS)
    also = [Rate(capacity / 2, per / 2)] if draw(st.booleans()) else []
    burst = draw(st.sampled_from([None, capacity / 4, seconds(0.5)]))
    if draw(st.booleans()):
        return Rate(capacity, per, also, burst)
    return Rate(capacity, per, also, burst, counts="end", max_operation_time=draw(DURATIONS))


CALLS = st.builds(InFlight, st.integers(1, 1_000), st.booleans(), DURATIONS)
LIMITS = st.dictionaries(NAMES, rates() | CALLS, min_size=1, max_size=4)


@given(LIMITS)
def test_what_is_written_can_be_read_again(dimensions: dict[str, Rate | InFlight]) -> None:
    written = str(Limits(**dimensions))
    again = Limits.parse(written)
    assert str(again) == written
    assert again.dimensions == tuple(dimensions)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("tokens=500", Limits(tokens=Rate(500))),
        ("tokens=90_000/1m", Limits(tokens=Rate(90_000, per=60))),
        (" a = 6/60s + 2/1s , b = 3 slots ", Limits(a=Rate(6, 60, [Rate(2)]), b=InFlight(3))),
        ("a=2/1s+6/60s", Limits(a=Rate(6, 60, [Rate(2)]))),
        ("a=6/60s,a/1s=2", Limits(a=Rate(6, 60, [Rate(2)]))),
        ("a=1e+16/60s", Limits(a=Rate(1e16, 60))),
        ("a=6/60s:counts=end:max-operation-time=30s", None),
        ("a=2slots:strict=no", Limits(a=InFlight(2, strict=False))),
    ],
)
def test_ways_to_write_a_limit(text: str, limits: Limits | None) -> None:
    if limits is None:
        limits = Limits(a=Rate(6, 60, counts="end", max_operation_time=30))
    assert Limits.parse(text) == limits


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("many", f"must be a number, or limits by dimension, as in {EXAMPLE}, not 'many'"),
        ("=5", "must be a number, or limits by dimension"),
        ("a=", "must have an amount and its window for a, as in a=600/60s"),
        ("a=x/5s", "must have an amount and its window for a"),
        ("a=5/soon", "must have an amount and its window for a"),
        ("a=-5", "must have an amount and its window for a"),
        ("a=nan", "must have an amount and its window for a"),
        ("a=5/60s+7/1s", "must be a possible limit for a, not 'a=5/60s+7/1s'; a shorter window"),
        ("a=5/60s+5/60s", "must be a possible limit for a"),
        ("a=2.5slots", "must have a whole number of slots for a, at least one, not 'a=2.5slots'"),
        ("a=0slots", "must have a whole number of slots for a"),
        ("a=1slots,a=2slots", "must name a once"),
        ("a=5:brst=5", "must have no 'brst' for a, not 'a=5:brst=5'; there are burst, counts"),
        ("a=5:burst=soon", "must have a value for burst of a that can be read"),
        ("a=5:counts=middle", "must be a possible limit for a"),
        ("a=5slots:strict=maybe", "must have a value for strict of a that can be read"),
        ("a b=5", "the name of a dimension must begin with a letter of a to z"),
    ],
)
def test_what_means_nothing_is_refused_by_its_dimension(text: str, says: str) -> None:
    with pytest.raises(ArgumentError) as error:
        read_limits("capacity", text)
    assert says in str(error.value)


def test_a_text_is_taken_where_only_texts_can_be() -> None:
    made = LimiterConfig(url="redis://db", name="llm", shared_capacity="a=6/60s,b=3slots")  # type: ignore[arg-type]
    assert made.shared_capacity == Limits(a=Rate(6, 60), b=InFlight(3))
    number = LimiterConfig(url="redis://db", name="llm", shared_capacity="2_000")  # type: ignore[arg-type]
    assert number.shared_capacity == 2_000


ODD = ["a,b", "a:b", "a=b", "a/b", "a b", "", "a+b", "a\nb", "a\x1b[2J", "a\0", 'a"', "a'b", "a\\b"]
ODD += ["a`b", "a$b", "a{b", "5", "_a", "-a", ".a", "a" * 65, "ä", "a\u202eb", "a\n", "名"]


@pytest.mark.parametrize("name", ODD)
def test_names_that_cannot_be_written_or_shown_everywhere_are_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="the name of a dimension must begin with a") as refused:
        Limits(**{name: Rate(5)})
    assert "\x1b" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["a", "Tokens.out", "gpt-4_1", "a" * 64])
def test_names_that_are_accepted_are_read_as_they_are_written(name: str) -> None:
    limits = Limits(**{name: Rate(5, per=60, also=[Rate(3)])})
    assert Limits.parse(str(limits)) == limits
