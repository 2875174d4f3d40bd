"""The soak's verdict: each thing that can be wrong is seen, and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from limiters.verifier import verify
from tests.soak.arrivals import Arrivals
from tests.soak.handlers import DUE, EARLY, IN_ORDER, TOGETHER
from tests.soak.verdict import FIRED, Outcome


def arrived(*requests: tuple[str, list[int]], late: bool = False) -> Arrivals:
    arrivals = Arrivals()
    for who, numbers in requests:
        arrivals.take(who, [("a", number) for number in numbers], late)
    return arrivals


ALL = [(EARLY, [0, 1]), (IN_ORDER, [2, 3]), (TOGETHER, [0, 1, 2, 3]), (DUE, [1, 0])]
GOOD = Outcome(
    arrivals=arrived(*ALL),
    expected={"in order": 4, "by event time": 4, "when due": 2},
    refused=0,
    spent=verify([(0.0, IN_ORDER, 5)], 10),
    left=0,
    alerts=set(FIRED),
    unresolved=set(),
    troubles=["Redis is away"],
    spark_kills=1,
    at_once=2,
    lasted=1.0,
)


def test_what_is_right_is_no_problem() -> None:
    assert list(GOOD.problems()) == []
    assert list(replace(GOOD, alerts=None).problems()) == [], "where there is no prometheus"
    assert str(GOOD).endswith("no problem")


def test_who_registers_a_device_may_send_after_the_sink_has_begun_to() -> None:
    swapped = arrived((IN_ORDER, [2, 3]), (EARLY, [0, 1]), *ALL[2:])
    assert list(replace(GOOD, arrivals=swapped).problems()) == []


def test_what_a_kill_explains_is_no_problem() -> None:
    again = arrived(*ALL, (IN_ORDER, [2, 3]))
    assert list(replace(GOOD, arrivals=again).problems()) == []
    assert again.again == Counter({IN_ORDER: 2})


@pytest.mark.parametrize(
    ("wrong", "problem_text"),
    [
        ({"arrivals": arrived(*ALL[1:])}, "2 of 4 rows were lost on the way 'in order'"),
        ({"arrivals": arrived(*ALL[:3])}, "2 of 2 rows were lost on the way 'when due'"),
        (
            {"arrivals": arrived(ALL[0], (IN_ORDER, [3, 2]), *ALL[2:])},
            "1 rows came out of order; the first: subject sink: 2 of a came after 3",
        ),
        ({"arrivals": arrived(*ALL, *[ALL[1]] * 2)}, "subject sink sent 4 rows again; 2 are"),
        ({"arrivals": arrived(*ALL, late=True)}, "rows were marked as late"),
        ({"refused": 3}, "the store answered 429, 3 times"),
        ({"spent": verify([(0.0, DUE, 11)], 10)}, "the limit was not kept: 1 OVER"),
        ({"left": 7}, "7 reminders are left"),
        ({"alerts": FIRED - {"RedisAway"}}, "did not fire: ['RedisAway']"),
        ({"alerts": FIRED | {"Throttled"}}, "without a cause: ['Throttled']"),
        ({"unresolved": {"TopicLate"}}, "did not resolve: ['TopicLate']"),
    ],
)
def test_each_problem_is_reported(wrong: dict[str, object], problem_text: str) -> None:
    bad = replace(GOOD, **wrong)  # type: ignore[arg-type]
    [problem] = bad.problems()
    assert problem_text in problem
    assert f"PROBLEM: {problem}" in str(bad)
