"""Limits as a text: what is written can be read again; what means nothing is refused by name."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.cli.main import command_line
from limiters import ArgumentError, InFlight, LimiterConfig, Limits, Rate
from limiters._costs_text import costs_text, read_costs
from limiters._limits_text import EXAMPLE
from limiters.leases._bounds import terms_of_limits
from limiters.leases._format import MAX_TEXT
from limiters.limits import MAX_BOUNDS, read_limits, seconds
from tests.examples import examples

NAMES = st.from_regex(r"[a-z][a-z_.-]{0,8}", fullmatch=True)
AMOUNTS = st.floats(1e-90, 1e90) | st.integers(1, 10**9)
DURATIONS = st.floats(1e-8, 86_400) | st.integers(1, 86_400)
PERIODS = st.floats(0.008, 86_400) | st.integers(1, 86_400)
"""Limits as they can be shared."""


@st.composite
def rates(draw: st.DrawFn, periods: st.SearchStrategy[float]) -> Rate:
    capacity, per = draw(AMOUNTS), draw(periods)
    also = [Rate(capacity / part, per / part) for part in draw(st.sets(st.sampled_from([2, 3, 7])))]
    bursts = st.none() | AMOUNTS | st.builds(seconds, DURATIONS)
    counts: Literal["start", "end"] = draw(st.sampled_from(["start", "end"]))
    longest = draw(DURATIONS) if counts == "end" else None
    return Rate(capacity, per, draw(st.permutations(also)), draw(bursts), counts, longest)


CALLS = st.builds(InFlight, st.integers(1, 1_000_000), st.booleans(), DURATIONS)


def limits(periods: st.SearchStrategy[float]) -> st.SearchStrategy[Limits]:
    dimensions = st.dictionaries(NAMES, rates(periods) | CALLS, min_size=1, max_size=4)
    return dimensions.map(lambda named: Limits(**named))


@settings(max_examples=examples(200), deadline=None)
@given(limits(DURATIONS) | st.builds(Limits.of, AMOUNTS, DURATIONS))
def test_what_is_written_is_read_as_the_same_limits(written: Limits) -> None:
    for again in (Limits.parse(str(written)), eval(repr(written))):
        assert again == written
        assert again.bounds == written.bounds
        assert hash(again) == hash(written)
        assert (str(again), repr(again)) == (str(written), repr(written))


@settings(max_examples=examples(30), deadline=None)
@given(limits(PERIODS))
def test_files_variables_and_options_give_the_same_limits(
    tmp_path_factory: pytest.TempPathFactory, written: Limits
) -> None:
    text = str(written)
    assert LimiterConfig(url="redis://db", name="llm", shared_capacity=written) == LimiterConfig(
        url="redis://db",
        name="llm",
        shared_capacity=text,  # type: ignore[arg-type]
    )
    toml = tmp_path_factory.mktemp("toml") / "dispatcher.toml"
    toml.write_text(f'[limit.set]\nshared-capacity = "{text}"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DISPATCHER_CONFIG", raising=False)
        patch.delenv("DISPATCHER_SHARED_CAPACITY", raising=False)
        assert capacity_on_command_line("--shared-capacity", text) == written
        patch.setenv("DISPATCHER_CONFIG", str(toml))
        assert capacity_on_command_line() == written
        toml.write_text("")
        patch.setenv("DISPATCHER_SHARED_CAPACITY", text)
        assert capacity_on_command_line() == written


def capacity_on_command_line(*arguments: str) -> object:
    """Return what `dispatcher limit set llm` sets with these arguments."""
    root, line = command_line(), ["limit", "set", "llm", *arguments]
    given = root.parse_args(line)
    text: Any = given.parser.settle(root, given, line).options().shared_capacity
    return read_limits("capacity", text)


@given(st.dictionaries(NAMES, st.floats(0, 1e90) | st.sampled_from(["size", "tokens"]), min_size=1))
def test_costs_that_are_written_are_read_as_the_same(cost: dict[str, float | str]) -> None:
    assert read_costs(costs_text(cost)) == cost


def test_equal_limits_have_one_hash_and_text_in_any_order_of_windows() -> None:
    windows = [Rate(100, per=20), Rate(20, per=3), Rate(9)]
    one, other = Rate(600, 60, windows), Rate(600, 60, windows[::-1])
    assert one == other
    assert str(Limits(a=one)) == str(Limits(a=other)) == "a=600/60s+100/20s+20/3s+9/1s"
    mixed = Limits(b=InFlight(2), a=one)
    assert mixed == Limits(a=one, b=InFlight(2))
    assert hash(mixed) == hash(Limits(a=one, b=InFlight(2)))


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("tokens=500/1s", Limits(tokens=Rate(500))),
        ("tokens=90_000/1m", Limits(tokens=Rate(90_000, per=60))),
        (" a = 6/60s + 2/1s , b = 3 slots ", Limits(a=Rate(6, 60, [Rate(2)]), b=InFlight(3))),
        ("a=2/1s+6/60s", Limits(a=Rate(6, 60, [Rate(2)]))),
        ("a=6/60s,a/1s=2", Limits(a=Rate(6, 60, [Rate(2)]))),
        ("a/1s=2,a=6/60s", Limits(a=Rate(6, 60, [Rate(2)]))),
        ("a/1s=2,a=6/60s:burst=3", Limits(a=Rate(6, 60, [Rate(2)], burst=3))),
        ("a/60s=6:burst=3,a/1s=2", Limits(a=Rate(6, 60, [Rate(2)], burst=3))),
        ("a=5/1e-5s", Limits(a=Rate(5, 1e-5))),
        ("a=5/9ms", Limits(a=Rate(5, 0.009))),
        ("200", Limits.of(200)),
        ("200/1m", Limits.of(200, 60)),
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
        ("a=-5", "must have an amount of more than zero and at most 1e+100 for a, not 'a=-5'"),
        ("a=0/5s", "must have an amount of more than zero"),
        ("a=nan", "must have an amount of more than zero"),
        ("a=5/60s+7/1s", "must be a possible limit for a, not 'a=5/60s+7/1s'; a shorter window"),
        ("a=5/60s+5/60s", "must be a possible limit for a"),
        ("a=2.5slots", "must have a whole number of slots for a, at least one, not 'a=2.5slots'"),
        ("a=0slots", "must have a whole number of slots for a"),
        ("a=1slots,a=2slots", "must name a once"),
        ("a=6/60s:burst=3,a=2/1s:burst=1", "must name a once"),
        ("a=6/60s,a=2slots", "must name a once"),
        ("a=6/60s:burst=3:burst=4", "must say burst of a once"),
        ("a=2slots:strict=no:strict=yes", "must say strict of a once"),
        ("a/1s=6/60s", "must say the window of a once, not 'a/1s=6/60s'"),
        ("a=90,000/60s", "a number here has no commas"),
        ("a=6/60s;b=2slots", "must separate dimensions by commas"),
        ("a=5/2d", "must be a possible limit for a, not 'a=5/2d'; a window must be at most 86400"),
        ("a=5:brst=5", "must have no 'brst' for a, not 'a=5:brst=5'; did you mean burst?"),
        ("a=5:x=5", "must have no 'x' for a, not 'a=5:x=5'; there are burst, counts"),
        ("a=5:burst=soon", "must have a value for burst of a that can be read"),
        ("a=5/1s:counts=middle", "must be a possible limit for a"),
        ("a=5/1s:max_operation_time=9s", "max_operation_time must be left out, or go with counts"),
        (
            "tokens=6/60s,calls=20",
            "must say what 20 counts, not 'calls=20'; write it with its window if calls is a rate, "
            "as in calls=20/1s, or as calls=20slots if it is a number of calls in flight",
        ),
        ("a=2.5", "must say what 2.5 counts, not 'a=2.5'; write it with its window if a is a rate"),
        ("a=6/60s+2", "must say what 2 counts, not 'a=6/60s+2'; write it with its window"),
        ("a=20_000:burst=5", "must say what 20000 counts"),
        ("a=5slots:strict=maybe", "must have a value for strict of a that can be read"),
        ("a b=5/1s", "the name of a dimension must begin with a letter of a to z"),
        (".", "must be a number, or limits by dimension"),
        ("1.2.3/60s", "must be a number, or limits by dimension"),
        ("20\u0663000", "letters and digits are those of ASCII"),
        ("to\x1b[31m=9/1s/6", "letters and digits are those of ASCII"),
    ],
)
def test_what_means_nothing_is_refused_by_its_dimension(text: str, says: str) -> None:
    with pytest.raises(ArgumentError) as error:
        read_limits("capacity", text)
    assert says in str(error.value)
    assert str(error.value).isprintable()


def test_a_longest_call_is_for_rates_that_count_from_the_end_alone() -> None:
    """It would be accepted and not used."""
    with pytest.raises(ArgumentError, match="be left out, or go with counts='end'") as refused:
        Rate(5, max_operation_time=60)
    assert refused.value.parameter == "max_operation_time"
    assert Rate(5, counts="end") == Rate(5, counts="end", max_operation_time=60)


def test_a_shorter_window_has_no_settings_of_its_own() -> None:
    """They would be lost where the limit is written."""
    for inner in (Rate(5, counts="end"), Rate(5, burst=1)):
        with pytest.raises(ArgumentError, match="also must have a capacity and per alone"):
            Rate(10, per=60, also=[inner])


def test_a_text_is_taken_where_only_texts_can_be() -> None:
    made = LimiterConfig(url="redis://db", name="llm", shared_capacity="a=6/60s,b=3slots")  # type: ignore[arg-type]
    assert made.shared_capacity == Limits(a=Rate(6, 60), b=InFlight(3))
    number = LimiterConfig(url="redis://db", name="llm", shared_capacity="2_000")  # type: ignore[arg-type]
    assert number.shared_capacity == 2_000


ODD = ["a,b", "a:b", "a=b", "a/b", "a b", "", "a+b", "a\nb", "a\x1b[2J", "a\0", 'a"', "a'b", "a\\b"]
ODD += ["a`b", "a$b", "a{b", "5", "_a", "-a", ".a", "a" * 41, "ä", "a\u202eb", "a\n", "名"]


@pytest.mark.parametrize("name", ODD)
def test_names_that_cannot_be_written_or_shown_everywhere_are_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="the name of a dimension must begin with a") as refused:
        Limits(**{name: Rate(5)})
    assert "\x1b" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["a", "Tokens.out", "gpt-4_1", "a" * 40])
def test_names_that_are_accepted_are_read_as_they_are_written(name: str) -> None:
    limits = Limits(**{name: Rate(5, per=60, also=[Rate(3)])})
    assert Limits.parse(str(limits)) == limits


def test_the_longest_names_of_all_bounds_fit_into_what_is_stored() -> None:
    longest = [f"{number:a>40}" for number in range(10, 10 + MAX_BOUNDS)]
    limits = Limits(**{name: InFlight(5, strict=False) for name in longest})
    assert len(terms_of_limits(limits, 1, 5_000).layout) <= MAX_TEXT
