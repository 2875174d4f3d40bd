"""The pure parts of the metrics: names, distributions, arrivals, and how readings add up."""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import Operation, Watcher
from dispatcher._core.queues.batch import OperationBatch
from dispatcher._core.queues.lane import Lane
from dispatcher.metrics import Options
from dispatcher.metrics import _names as names
from dispatcher.metrics._kinds.arrivals import MOST, ArrivalTimes
from dispatcher.metrics._kinds.watch import MOST_NOTES, Watch
from dispatcher.metrics._names import METRICS
from dispatcher.metrics.readings import Reading, Readings
from limiters._stats.histogram import Histogram

BOUNDED = {
    "learned",
    *("limit", "batcher", "topic", "gate", "builder", "member", "query"),
    *("outcome", "kind", "state", "reason", "cause", "longer_than", "what", "dimension"),
}
DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_names_follow_the_conventions() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"dispatcher_[a-z]+(_[a-z]+)*", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert not metric.name.endswith(("_count", "_sum", "_bucket", "_milliseconds", "_ms"))
        assert metric.text.endswith("."), metric.name
        assert bool(metric.bounds) == (metric.kind == "histogram")
    assert len({(metric.name, metric.labels) for metric in METRICS}) == len(METRICS)


def test_labels_are_bounded_by_what_a_program_has() -> None:
    assert {label for metric in METRICS for label in metric.labels} <= BOUNDED


def test_the_document_has_every_name_with_its_labels() -> None:
    told = dict(re.findall(r"^\| `(dispatcher_\w+)` *\| (.*?) *\|", DOCUMENT.read_text(), re.M))
    for metric in METRICS:
        labels = set(re.findall(r"`(\w+)`", told.get(metric.name, "")))
        assert metric.name in told, f"{metric.name} is not in docs/metrics.md"
        assert set(metric.labels) <= labels, f"{metric.name}: {metric.labels}"
    assert set(told) == {metric.name for metric in METRICS}


@given(st.lists(st.floats(0, 500), min_size=1))
def test_a_distribution_counts_each_value_in_its_bucket(values: list[float]) -> None:
    one = Histogram((1, 10, 100))
    for value in values:
        one.note(value)
    for bound in one.bounds:
        upto = sum(one.counts[: bisect_left(one.bounds, bound) + 1])
        assert upto == sum(value <= bound for value in values)
    assert sum(one.counts) == len(values)
    assert one.sum == pytest.approx(sum(values))


@given(st.floats(0, 200), st.floats(0, 200), st.integers(1, 1_000))
def test_a_spread_loses_nothing_and_is_even(one: float, other: float, count: int) -> None:
    low, high = sorted((one, other))
    spread = Histogram((1, 10, 100))
    spread.note_spread(low, high, count)
    assert sum(spread.counts) == count
    assert min(spread.counts) >= 0
    assert spread.sum == pytest.approx(count * (low + high) / 2)
    if low <= 10 < high:
        upto = sum(spread.counts[:2])
        assert upto == pytest.approx(count * (10 - low) / (high - low), abs=1)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_an_arrival_is_known_as_well_as_the_engine_looked(seed: int) -> None:
    random = Random(seed)
    arrivals, came, now, ticket, waiting = ArrivalTimes(), {}, 0.0, -1, 0
    for _ in range(60):
        looked = now
        now += random.choice([0.001, 0.1, 2.0])
        for _ in range(random.choice([0, 0, 1, 7])):
            ticket += 1
            # Who comes when nothing waits wakes the engine.
            came[ticket] = (looked if waiting else now, now)
        arrivals.note(ticket, since=looked if waiting else now, now=now)
        waiting = random.choice([0, 1])
    for one, (earliest, latest) in came.items():
        assert earliest - 1e-9 <= arrivals.at(one, now) <= latest + 1e-9


def test_many_arrivals_are_remembered_less_exactly_the_older_they_are() -> None:
    arrivals = ArrivalTimes()
    for number in range(20 * MOST):
        arrivals.note(number, since=number - 1.0, now=float(number))
    assert len(arrivals._tickets) <= MOST
    times = [arrivals.at(number, 0.0) for number in range(0, 20 * MOST, 7)]
    assert times == sorted(times)
    assert arrivals.at(20 * MOST - 5, 0.0) == pytest.approx(20 * MOST - 5, abs=2)
    assert arrivals.at(10, 0.0) == pytest.approx(10, abs=20 * MOST / 50)
    assert arrivals.at(20 * MOST, unknown=1.5) == 1.5


def batch_of(count: int, first: int, cost: float) -> OperationBatch:
    watcher = Watcher(print)
    batch = OperationBatch(Lane(watcher), first)
    for ticket in range(first, first + count):
        operation = Operation(watcher, cost / count, None)
        operation._where = ticket
        batch.operations.append(operation)
    batch.cost = cost
    return batch


def test_a_watch_loses_nothing_while_others_read_it_and_holds_little_if_none_does() -> None:
    watch, ended = Watch(Options(None, None, None)), threading.Event()

    def scrape() -> None:
        while not ended.is_set():
            seen = watch.read()
            assert sum(seen.size.counts) == sum(seen.costs[()].counts)
            assert sum(seen.wait.counts) == seen.size.sum

    def work(since: int) -> None:
        for number in range(since, since + 2_000):
            watch.came_in(3 * number + 2, False, number / 10)
            watch.raised(batch_of(3, 3 * number, 7.5), number / 10 + 0.05)
            watch.returned(batch_of(3, 0, 0.0), 0.25)
            most.append(len(watch._notes))

    most: list[int] = []
    work(0)
    assert max(most) <= MOST_NOTES + 2
    with ThreadPoolExecutor() as pool:
        scraping = [pool.submit(scrape) for _ in range(2)]
        work(2_000)
        ended.set()
    assert [one.result() for one in scraping] == [None, None]
    seen = watch.read()
    assert (sum(seen.size.counts), seen.size.sum) == (4_000, 12_000)
    costs = seen.costs[()]
    assert (sum(costs.counts), costs.sum) == (4_000, 30_000)
    assert (sum(seen.callback.counts), seen.callback.sum) == (4_000, 1_000)
    assert sum(seen.wait.counts) == 12_000
    assert seen.wait.sum == pytest.approx(600)


def test_readings_of_the_same_labels_are_put_together_as_the_metric_says() -> None:
    sizes = Histogram(names.BATCH_SIZE.bounds)
    sizes.note(3)
    readings = Readings()
    for value in (2.0, 5.0):
        readings.add(Reading(names.THROTTLED, ("b", "l"), value))
        readings.add(Reading(names.PAUSED, ("b", "l"), value))
        readings.add(Reading(names.LIMIT_REDIS_UP, ("l",), value))
        readings.add(Reading(names.BATCH_SIZE, ("b", "l"), sizes))
    throttled, paused, up, together = (reading.value for reading in readings)
    assert (throttled, paused, up) == (7.0, 5.0, 2.0)
    assert isinstance(together, Histogram)
    assert (sum(together.counts), together.sum) == (2, 6)
    assert sizes.sum == 3


def test_distributions_of_other_bounds_do_not_break_a_scrape() -> None:
    one, other = Histogram((1, 2)), Histogram((5,))
    readings = Readings(
        [Reading(names.BATCH_COST, ("b", "l"), one), Reading(names.BATCH_COST, ("b", "l"), other)]
    )
    assert [reading.value for reading in readings] == [one]
