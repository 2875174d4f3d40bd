"""The queue that benchmarks compare with keeps to what is allowed, and none that does is faster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.one_queue import starts
from tests.servers.counted import Allowed, Call, Window, judged

Drawn = tuple[int, int]
"""The tokens of a call, and the quarters of a second that it takes."""

ALLOWED = Allowed(
    (Window("tokens", 10, 3.0), Window("requests", 4, 3.0), Window("requests", 2, 1.0)), in_flight=3
)


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(1, 20)), max_size=30))
def test_each_call_begins_at_the_first_instant_at_which_nothing_is_over(drawn: list[Drawn]) -> None:
    begun: list[Call] = []

    def called(at: float, one: Drawn) -> Call:
        costs = {"tokens": one[0], "requests": 1}
        return Call("all", at, at, at + one[1] / 4, costs)

    queue = starts(
        drawn,
        ALLOWED,
        cost=lambda one, dimension: one[0] if dimension == "tokens" else 1,
        seconds=lambda one: one[1] / 4,
    )
    for at, one in queue:
        before = begun[-1].began if begun else 0.0
        if at > before:
            assert not judged([*begun, called(at - 0.125, one)], ALLOWED).holds
        assert at >= before
        begun.append(called(at, one))
        verdict = judged(begun, ALLOWED)
        assert verdict.holds, str(verdict)
    assert len(begun) == len(drawn)
