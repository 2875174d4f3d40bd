"""The soak, scaled down: Spark, workers, Redis and Prometheus together, in trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import left_out
from tests.soak.plan import BRIEF, SMALL, Plan
from tests.soak.story import Story
from tests.soak.verdict import FIRED

TROUBLES = [
    "a Python worker of Spark is killed",
    "Redis is away",
    "an executor is killed",
    "a worker is killed",
    "all workers are stopped for a while",
]
"""All but the death of a driver, for which there is test_spark_faults."""
SOME = ["Redis is away", "all workers are stopped for a while"]
"""Troubles for which there are alerts. test_spark_faults kills parts of Spark, too."""


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("plan", "troubles", "least"),
    [
        pytest.param(BRIEF, SOME, 100, id="brief"),
        pytest.param(SMALL, TROUBLES, 1_000, id="each trouble", marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost_nothing_comes_out_of_order_and_nothing_is_refused(
    plan: Plan, troubles: list[str], least: int, tmp_path: Path
) -> None:
    page = tmp_path / "soak.html"
    outcome = Story(tmp_path, plan, seed=1, say=print).run(lambda _: troubles, page)
    assert list(outcome.problems()) == [], str(outcome)
    assert min(outcome.expected.values()) > least
    assert min(outcome.arrivals.firsts.values()) > 0
    assert len(outcome.arrivals.firsts) == 4
    if not left_out("prometheus"):
        assert outcome.alerts is not None
        assert outcome.alerts >= FIRED
