"""Turns of callers: law C4, where several Batchers share one limiter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from limiters._resource.turns import Turns


def test_with_an_empty_line_all_may() -> None:
    turns = Turns()
    assert turns.is_for("a", 0.0)
    assert turns.is_for(None, 0.0)
    assert turns.gathering(0.0) == 0


def test_c4_the_first_in_line_goes_first_whatever_the_others_need() -> None:
    turns = Turns()
    turns.wait("dear", 80.0, until=9.0)
    turns.wait("cheap", 1.0, until=9.0)
    turns.wait("dear", 90.0, until=9.5)  # keeps its place
    assert [name for name in ("cheap", "dear", None) if turns.is_for(name, 1.0)] == ["dear"]
    assert turns.gathering(1.0) == 90.0
    turns.end("dear")
    assert turns.is_for("cheap", 1.0)
    assert turns.gathering(1.0) == 1.0


def test_one_that_does_not_ask_again_is_forgotten() -> None:
    turns = Turns()
    turns.wait("gone", 80.0, until=1.0)
    turns.wait("next", 5.0, until=9.0)
    assert not turns.is_for("next", 0.99)
    assert turns.is_for("next", 1.0)
    turns.end("never there")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["wait", "end", "look"]), st.sampled_from("abcd"), st.floats(0.01, 2.0)
        ),
        max_size=50,
    )
)
def test_it_is_a_line_first_come_first_served(steps: list[tuple[str, str, float]]) -> None:
    turns = Turns()
    now = 0.0
    line: list[tuple[str, float, float]] = []
    for what, name, number in steps:
        now += 0.1
        if what == "wait":
            turns.wait(name, number, now + number)
            entry = (name, number, now + number)
            if any(one[0] == name for one in line):
                line = [entry if one[0] == name else one for one in line]
            else:
                line.append(entry)
        elif what == "end":
            turns.end(name)
            line = [one for one in line if one[0] != name]
        while line and line[0][2] <= now:
            line.pop(0)
        assert [one for one in "abcd" if turns.is_for(one, now)] == (
            [line[0][0]] if line else list("abcd")
        )
        assert turns.gathering(now) == (line[0][1] if line else 0.0)
