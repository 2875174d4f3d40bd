"""Laws V3 and V7 in Spark: the costs of rows and batches in the dimensions of a limit."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.spark import EventTimeSink, LimiterConfig, SubjectSink
from dispatcher.spark._most_cost import MostCost
from dispatcher.spark._options import for_tasks, prices_of
from dispatcher.spark._prices import Prices
from dispatcher.spark._rows.expressions import Expression
from dispatcher.spark._rows.next_fit import next_fit
from dispatcher.spark._rows.row_costs import RowCosts, numbers
from dispatcher.spark._task.sums import Sums, cost_of, names, together
from limiters import ArgumentError
from limiters._costs import Costs
from limiters.limits import InFlight, Limits, Rate

HANDLER = "tests.spark.handlers:only_rows"
URL = "redis://db:6379/0"
API = Limits(requests=Rate(600, per=60), tokens=Rate(9_000, per=60), calls=InFlight(4))


def limiter(capacity: float | Limits = API) -> LimiterConfig:
    return LimiterConfig(url=URL, name="api", shared_capacity=capacity)


def sink(**options: Any) -> SubjectSink:
    right = {"subject": "subject", "time": "at", "limiter": limiter()}
    return SubjectSink(**{"handler": HANDLER, **right, **options})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, r"cost must say of which dimension it is, not 1; as in \{'requests': 1\}"),
    ({"cost": "size"}, "cost must say of which dimension it is, not 'size'; the limit"),
    ({"cost": {"bytes": "size"}}, "cost must be of requests, tokens and calls alone"),
    ({"cost": {"tokens": -1}}, r"cost\['tokens'\] must be zero or more"),
    ({"cost": {"tokens": [1]}}, r"cost\['tokens'\] must be a number, an SQL expression"),
    ({"cost": {"": 1}}, "cost must have texts that are not empty as dimensions"),
    ({"cost": {"calls": 0.5}}, r"cost\['calls'\] must be a whole number"),
    ({"cost": {"tokens": 1}}, "cost must name calls, of which each call takes one or more"),
    (
        {"cost": {"tokens": 1, "calls": 1}, "max_operation_time": 61},
        "max_operation_time must be at most 60 seconds, the max_operation_time of calls=InFlight",
    ),
    ({"cost": 0, "batch_cost": 1}, "batch_cost must say of which dimension it is"),
    ({"cost": 0, "batch_cost": {"bytes": 1}}, "batch_cost must be of requests"),
    ({"cost": 0, "batch_cost": {"calls": 5}}, "batch_cost must be at most 4 of calls"),
    ({"cost": 0, "batch_cost": -1}, "batch_cost must be zero or more"),
    ({"cost": 0, "max_batch_cost": 5}, "max_batch_cost must say of which dimension"),
    ({"cost": 0, "max_batch_cost": {"tokens": 0}}, r"max_batch_cost\['tokens'\] must be more"),
    (
        {"cost": 0, "batch_cost": {"tokens": 7}, "max_batch_cost": {"tokens": 5}},
        "batch_cost must be at most 5 of tokens, .*; that is max_batch_cost",
    ),
    ({"limiter": limiter(100), "cost": {"tokens": 1}}, "cost must be a number: the limit has one"),
    ({"limiter": limiter(100), "batch_cost": 101}, "batch_cost must be at most 100, not 101"),
    ({"limiter": None, "redis": URL, "batch_cost": {"tokens": 1}}, "batch_cost must be a number"),
    (
        {"limiter": None, "redis": URL, "cost": {"tokens": 1}, "max_batch_cost": 5},
        "max_batch_cost must be a mapping of dimensions",
    ),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_v7_costs_that_do_not_fit_the_limit_are_refused_when_a_sink_is_made(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        sink(**options)


def test_v3_the_rows_of_a_batch_may_cost_the_bound_without_the_batch_cost() -> None:
    prices = prices_of(
        sink(
            cost={"requests": 2, "tokens": "size / 4"},
            batch_cost={"requests": 1, "calls": 1},
            max_batch_cost={"tokens": 500},
        )
    )

    assert prices.most == MostCost.of({"requests": 599, "tokens": 500, "calls": 3})
    assert prices.chosen == MostCost.of({"tokens": 500})
    assert (prices.of_tasks, prices.of_spark) == ({"requests": 2}, {"tokens": "size / 4"})
    assert prices.dimensions == ("requests", "tokens", "calls")
    assert prices.form.slots == {"calls"}


def test_costs_are_numbers_for_a_limit_with_one_named_dimension() -> None:
    one = limiter(Limits(tokens=Rate(100)))
    named = prices_of(sink(limiter=one, cost={"tokens": "size"}, batch_cost={"tokens": 10}))
    plain = prices_of(sink(limiter=one, cost="size", batch_cost=10))

    assert named == plain
    assert plain.most == MostCost.of(90)
    assert prices_of(sink(limiter=one, cost={})).of_tasks == {"": 0}


def test_a_sink_with_costs_in_dimensions_can_be_pickled_and_tasks_get_their_part() -> None:
    made = EventTimeSink(
        HANDLER, limiter=limiter(), cost={"requests": 1, "tokens": "size"}, batch_cost={"calls": 1}
    )
    tasks = for_tasks(pickle.loads(pickle.dumps(made)))

    assert tasks.cost == {"requests": 1}
    assert prices_of(tasks).of_batch == Costs({"calls": 1})


def test_n1_calls_are_named_by_rows_or_batches_also_where_spark_works_them_out() -> None:
    by_rows = sink(cost={"calls": "size"}, batch_cost={"requests": 1})
    assert prices_of(for_tasks(by_rows)).of_batch == Costs({"requests": 1})

    said = "batch_cost must name calls, .*; as in {'calls': 1}, or calls=1 where it is a text"
    with pytest.raises(ArgumentError, match=said):
        sink(cost={"tokens": "size"})


def test_costs_in_dimensions_also_bound_batches_without_a_limit() -> None:
    prices = Prices.of({"tokens": 5, "calls": 1}, 0, {"tokens": 12})

    assert prices.most == MostCost.of({"tokens": 12})
    assert (prices.of_batch, prices.of_tasks) == (Costs(), {"tokens": 5, "calls": 1})


amounts = st.dictionaries(st.sampled_from(["a", "b", ""]), st.floats(0, 100), max_size=3)


@given(amounts, amounts)
def test_a_cost_is_too_high_if_it_is_in_any_dimension(
    most: dict[str, float], cost: dict[str, float]
) -> None:
    bound, costs = MostCost.of(most), Costs(cost)
    more: set[str | None] = {name for name, one in most.items() if cost.get(name, 0) > one}

    assert bound.beyond(costs) in (more or {None})
    assert bound.beyond(bound.bounded(costs)) is None
    assert MostCost.of(most, None, cost).beyond(MostCost.of(most).bounded(Costs(cost))) is None


def test_rows_that_cost_too_much_are_found_with_their_dimension() -> None:
    costs = RowCosts({"requests": 1.0, "tokens": np.array([5.0, 50.0, 9.0, 10.0])})
    most = MostCost.of({"requests": 3, "tokens": 9})

    assert costs.beyond([0, 1, 2, 3], most) == [(1, "tokens", 50.0), (3, "tokens", 10.0)]
    assert costs.beyond([2], most) == []
    assert costs.beyond([0], MostCost.of({"requests": 0})) == [(0, "requests", 1.0)]
    assert costs.of([0, 2]) == {"requests": 2, "tokens": 14}


@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 3)), min_size=1, max_size=40),
    st.floats(1, 9),
)
def test_reach_ends_where_one_dimension_is_full(
    rows: list[tuple[float, int]], limit: float
) -> None:
    columns = [np.array(column, float) for column in zip(*rows, strict=True)]
    costs = RowCosts(dict(zip("ab", columns, strict=True)))
    most = MostCost.of({"a": limit, "b": 3})
    reach = costs.reach(range(len(rows)), most)

    for begin in range(len(rows)):
        end = reach(begin)
        assert all(
            column[begin:end].sum() <= one + 1e-9
            for column, one in zip(columns, most.sizes, strict=True)
        )
        more = [column[begin : end + 1].sum() for column in columns]
        assert end == len(rows) or any(
            found > one - 1e-9 for found, one in zip(more, most.sizes, strict=True)
        )


@pytest.mark.parametrize(
    ("dimension", "cost", "reason"),
    [
        ("a", np.nan, "its cost of a is null or NaN, and a number of calls in flight is whole"),
        ("b", np.nan, "its cost of b is null or NaN, and a cost is a number of zero or more"),
        ("b", -1.0, "its cost of b is -1, and a cost is a number of zero or more"),
        ("b", np.inf, "its cost of b is inf, and a cost is a number of zero or more"),
        ("a", 1.5, "its cost of a is 1.5, and a number of calls in flight is whole"),
        ("", -2e6, "its cost is -2e+06, and a cost is a number of zero or more"),
    ],
)
def test_rows_whose_cost_cannot_be_charged_are_refused(
    dimension: str, cost: float, reason: str
) -> None:
    costs = RowCosts.checked({dimension: np.array([1.0, cost]), "c": 0.5}, {}, {"a"})

    assert costs.refused == {1: reason}
    assert costs.column(dimension, range(2)) == [1, 0]
    assert RowCosts.checked({"a": np.array([2.0]), "b": 0.5}, {}, {"a"}).refused == {}


def test_what_a_function_of_a_row_returns_is_a_number_of_any_type_and_no_text() -> None:
    found, refused = numbers([1, 2.5, Decimal("0.5"), "7", None, True], "tokens")

    assert found.tolist() == [1, 2.5, 0.5, 0, 0, 1]
    assert refused == {
        3: "its cost of tokens is '7', which is not a number",
        4: "its cost of tokens is None, which is not a number",
    }
    assert numbers(["7", "8"], "")[1] == {
        0: "its cost is '7', which is not a number",
        1: "its cost is '8', which is not a number",
    }


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=4)),
)
def test_s1_s3_next_fit_keeps_groups_together_and_batches_within_every_bound(
    groups: list[list[tuple[int, int]]],
) -> None:
    numbered = [[(*size, place, at) for at, size in enumerate(g)] for place, g in enumerate(groups)]
    most = (4, 5)

    def fit(sizes: list[tuple[int, int]]) -> bool:
        return sum(one for one, _ in sizes) <= 4 and sum(one for _, one in sizes) <= 5

    batches = list(next_fit(numbered, lambda item: item[:2], most))

    assert [item for batch in batches for item in batch] == [one for g in numbered for one in g]
    whole = {place for place, group in enumerate(groups) if fit(group)}
    for batch in batches:
        if len(batch) > 1:
            assert fit([(rows, cost) for rows, cost, _, _ in batch])
        for place in whole & {item[2] for item in batch}:
            assert sum(item[2] == place for item in batch) == len(groups[place])


def test_sums_have_a_name_for_each_dimension() -> None:
    sums = Sums(["tokens", "calls"])
    sums.spend(Costs({"tokens": 5, "calls": 1}))
    sums.spend(Costs({"tokens": 2}))

    assert tuple(sums.numbers) == names(["tokens", "calls"])
    assert cost_of(together([sums.numbers, sums.numbers])) == {"tokens": 14, "calls": 2}


@pytest.mark.parametrize(
    "text", ["size +", "size; 1", "size[0]", "f(size)", "size ** 2", "'5'", "True", "", "a.b", "1j"]
)
def test_a_text_that_is_no_arithmetic_of_columns_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="cost must be made of numbers, names of columns"):
        Expression(text).columns("cost")


def test_an_expression_reads_number_columns_of_any_type_and_name() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "size": pa.array([8, 4], pa.int32()),
            "a `quoted` name": pa.array([1.5, None], pa.float32()),
            "price": pa.array([2, 3], pa.int64()).cast(pa.decimal128(30, 2)),
        }
    )
    expression = Expression("-(1 - size) * price / 2 + `a ``quoted`` name`")

    assert expression.columns("cost") == ["size", "price", "a `quoted` name"]
    assert expression.of(rows).tolist() == pytest.approx([8.5, float("nan")], nan_ok=True)
    assert Expression("3").of(rows).tolist() == [3.0, 3.0]
    assert Expression("1 / (size - 4)").of(rows).tolist() == [0.25, float("inf")]
    assert Expression.column("a `quoted` name").columns("cost") == ["a `quoted` name"]
