"""Law Z6 in Spark: what rows cost is learned by each process, and never changes its batches."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from dispatcher import Learned
from dispatcher.spark import SubjectSink
from dispatcher.spark.context import Context
from limiters import ArgumentError, InFlight, LimiterConfig, Limits, Rate
from limiters.embedded import EmbeddedRedis
from tests.integration.spark.test_costs import rows, run
from tests.integration.spark.test_packs import Handler

PER = 1_200.0
"""Seconds: far more than a test may take."""
ROWS = rows(150)
"""Three hundred rows, two of each subject."""


def limiter(redis: EmbeddedRedis, name: str, limits: Limits | float) -> LimiterConfig:
    return LimiterConfig(
        url=redis.url, name=name, shared_capacity=limits, lease_time=1.0, max_interval=0.1
    )


def settle(batch: list[Any], context: Context) -> None:
    context.settle({"tokens": 2 * len(batch) + 3})


def settle_number(batch: list[Any], context: Context) -> None:
    context.settle(2 * len(batch))


def settle_rows(batch: list[Any], context: Context) -> None:
    for row in batch:
        context.settle({"tokens": 2}, rows=[row])


@pytest.mark.parametrize("answer", [settle, settle_rows])
def test_z6_rows_learn_what_their_batches_were_settled_to(
    answer: Any, shared_redis: EmbeddedRedis
) -> None:
    limits = Limits(
        tokens=Rate(10_000, per=PER, burst=10_000),
        requests=Rate(1_000, per=PER, burst=1_000),
        calls=InFlight(2),
    )
    learned, handler, expected = Learned(10), Handler(answer), Handler()
    limit = limiter(shared_redis, f"rows-{answer.__name__}", limits)
    batch_cost = {"requests": 1, "tokens": 3, "calls": 1}
    run(handler, ROWS, limiter=limit, cost={"tokens": learned}, batch_cost=batch_cost)
    run(expected, ROWS, limiter=limit, cost={"tokens": 10}, batch_cost=batch_cost)
    assert learned.estimate() == pytest.approx(2)
    assert handler.batches == expected.batches, "those that a replay has to make again"


def test_z6_costs_in_numbers_are_learned_as_well(shared_redis: EmbeddedRedis) -> None:
    learned = Learned(10)
    limit = limiter(shared_redis, "learned-numbers", Limits(tokens=Rate(10_000, PER, burst=10_000)))
    run(Handler(settle_number), ROWS, limiter=limit, cost=learned, batch_cost=0)
    assert learned.estimate() == pytest.approx(2)


def test_tasks_of_one_process_learn_together() -> None:
    learned = Learned({"tokens": 5}, percentile=50)
    sent = pickle.dumps(learned)
    assert pickle.loads(sent) is pickle.loads(sent) is learned
    apart = pickle.loads(sent.replace(learned._identity.encode(), b"0" * 32))
    assert apart is not learned
    assert repr(apart) == repr(learned)
    assert pickle.loads(pickle.dumps(apart)) is apart


@pytest.mark.parametrize(
    ("cost", "says"),
    [
        (Learned(5, by=len), "cost must be Learned without `by`"),
        ({"tokens": Learned({"tokens": 5})}, r"cost\['tokens'\] must be Learned with a number"),
        ({"bytes": Learned(5)}, "cost must be of tokens and requests alone"),
        (Learned(5), "cost must say of which dimension it is"),
    ],
)
def test_learned_costs_that_rows_cannot_have_are_refused(cost: Any, says: str) -> None:
    limits = Limits(tokens=Rate(10), requests=Rate(5))
    config = LimiterConfig(url="redis://db", name="llm", shared_capacity=limits)
    with pytest.raises(ArgumentError, match=says):
        SubjectSink(
            "tests.spark.handlers:only_rows", subject="s", time="t", cost=cost, limiter=config
        )
