"""Law Z6, for people: `dispatcher limit show` prints what instances have learned of costs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from dispatcher import Batcher, Learned, Operation, Watcher, settle
from dispatcher.cli._commands.limit.learned import learned_by
from dispatcher.spark._learned_prices import LearnedPrices, PackCost
from dispatcher.timeline import Message, Timeline
from dispatcher.worker import Worker, WorkerContext
from limiters import Costs, MemoryLeaseManager, RedisLeaseManager, SharedResource
from limiters.leases import LeaseManager
from limiters.leases._learned_costs import LearnedKindView
from limiters.leases._scripts import keys_of
from limiters.limits import Limits, Rate
from tests.commands import Run, asks, hold
from tests.waiting import until

PAGE = Path(__file__).parents[3] / "docs" / "command_line.md"


def by_kind(**known: tuple[int, float]) -> Learned:
    """Return a cost that has learned so often what each kind costs, but for one of `small`."""
    cost = Learned(4_500, by=str)
    for kind, (count, actual) in known.items():
        for _ in range(count - (kind == "small")):
            cost.learn(kind, actual)
    return cost


@contextmanager
def instance(manager: LeaseManager, limits: Limits | None = None) -> Iterator[Batcher]:
    if limits is None:
        limiter = SharedResource(
            shared_capacity=90_000,
            factor=1_000,
            period=60,
            lease_manager=manager,
            max_interval=0.1,
        )
    else:
        limiter = SharedResource(shared_capacity=limits, lease_manager=manager, max_interval=0.1)
    with Batcher(rate_limiter=limiter) as batcher:
        yield batcher


def costing(actual: Any) -> Watcher:
    """Make a watcher of which each operation costs that."""

    def settle_each(batch: list[Operation]) -> None:
        for one in batch:
            one.settle(actual)

    return Watcher(settle_each)


def shows(
    manager: LeaseManager, *batchers: Batcher, kinds: int = 1, instances: int = 1
) -> list[LearnedKindView]:
    """Return what the limit shows, once it shows so many kinds of so many instances. Meanwhile they
    do work that teaches nothing."""
    other = Watcher(lambda _: None)
    found: list[LearnedKindView] = []

    def is_shown() -> bool:
        for batcher in batchers:
            limiter = batcher.rate_limiter
            assert limiter is not None
            cost: Any = 1 if limiter.limits.is_scalar else {"tokens": 1}
            batcher.enqueue(Operation(other, cost, None))
        view = manager.look()
        found[:] = learned_by(view) if view is not None else []
        return len(found) == kinds and max(one.instances for one in found) == instances

    until(is_shown)
    return found


def test_z6_limit_show_prints_what_the_page_says(run: Run, url: str) -> None:
    with (
        closing(RedisLeaseManager(url, name="answers", lease_time=5)) as one,
        closing(RedisLeaseManager(url, name="answers", lease_time=5)) as two,
        instance(one) as first,
        instance(two) as second,
    ):
        costs = [by_kind(small=(120, 1_034), large=(3, 4_100)), by_kind(small=(80, 1_120))]
        first.enqueue(Operation(costing(1_034), costs[0], "small"))
        second.enqueue(Operation(costing(1_120), costs[1], "small"))
        shows(one, first, second, kinds=2, instances=2)
        said = run("limit", "show", "answers")
        listed = run("limit", "show", "answers", "--json").json
    assert (said.code, said.err) == (0, "")
    terms, _, table = said.out.partition("\n\n")
    [page] = re.findall(
        r"\$ dispatcher limit show answers\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    its_terms, _, its_table = page.partition("\n\n")
    assert table == its_table
    without_free = [line for line in terms.splitlines() if not line.startswith("free")]
    assert without_free == [one for one in its_terms.splitlines() if not one.startswith("free")]
    assert all(f"`{field}`" in PAGE.read_text("utf-8") for field in listed["learned"][0])
    assert listed["learned"][0] == {
        "kind": "small",
        "dimension": "",
        "lowest": 1_034,
        "highest": 1_120,
        "settled": 200,
        "instances": 2,
        "cold": 0,
    }


def test_a_limit_of_which_nothing_is_learned_shows_nothing(
    run: Run, manager: RedisLeaseManager
) -> None:
    hold(manager, asks("a", need=300))
    assert "learned" not in run("limit", "show", "orders").out
    assert run("limit", "show", "orders", "--json").json["learned"] == []


def test_z6_dimensions_batches_and_rows_of_spark_are_shown_in_memory() -> None:
    manager = MemoryLeaseManager()
    row = Learned(5)
    prices = LearnedPrices.of({"tokens": row}, {"tokens": 5})
    charge, besides = Costs({"tokens": 10, "requests": 1}), Costs({"requests": 1})
    of_row = PackCost(charge, prices, besides, rows=2)
    of_batch = Learned({"tokens": 50})
    each = Watcher(lambda batch: settle(batch, {"tokens": 40, "requests": 1}), batch_cost=of_batch)
    limits = Limits(tokens=Rate(1_000), requests=Rate(100))
    with instance(manager, limits) as batcher:
        batcher.enqueue(Operation(each, {"requests": 1}, None))
        batcher.enqueue(Operation(costing({"tokens": 8}), of_row, None))
        found = shows(manager, batcher, kinds=2)
    assert {(one.kind, one.dimension, one.lowest, one.settled, one.cold) for one in found} == {
        ("batch_cost", "tokens", 50, 1, 1),
        ("", "tokens", 5, 1, 1),
    }


def test_z6_a_worker_shows_what_it_has_learned(url: str, manager: RedisLeaseManager) -> None:
    timeline = Timeline(url, "mails")
    timeline.producer("us").create([Message("x") for _ in range(20)])

    def handler(messages: list[Any], context: WorkerContext) -> None:
        context.settle(3 * len(messages))

    limiter = SharedResource(shared_capacity=100, lease_manager=manager, max_interval=0.1)
    with Worker(timeline, handler, cost=Learned(10), rate_limiter=limiter) as worker:
        [found] = shows(manager, worker.batcher)
    timeline.close()
    assert (found.kind, found.settled > 0) == ("", True)


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("mine")


@pytest.mark.parametrize(
    "kind",
    ["\x1b[2J\n\t" * 50, "\ud800", Unprintable(), "ü" * 99],
    ids=["control characters", "half of a character", "raises", "long"],
)
def test_z6_kinds_are_shown_whatever_they_are(run: Run, url: str, kind: Any) -> None:
    cost = Learned(50, by=lambda payload: payload)
    with (
        closing(RedisLeaseManager(url, name="answers", lease_time=5)) as manager,
        instance(manager) as batcher,
    ):
        batcher.enqueue(Operation(costing(7), cost, kind))
        [found] = shows(manager, batcher)
        said = run("limit", "show", "answers")
        named = run("leases", "answers", "--json").json
    assert len(found.kind) <= 40
    assert found.kind.isprintable()
    assert (said.code, "\x1b" in said.out) == (0, False)
    assert all("\n" not in one["label"] for one in named["instances"])


def test_z6_what_a_hostile_instance_writes_harms_nothing(
    run: Run, url: str, manager: RedisLeaseManager
) -> None:
    wrong = [
        "\x1b[2J",
        "nan\t1\t0\t\tx",
        "1\t-1\t0\t\tx",
        "1e999\t1\t0\t\tx",
        "1\t1\t7\t\tx",
        "\t" * 9,
    ]
    label = "\n".join(["host:1", *wrong, "5\t2\t1\t\x1b[2J\tgood"])
    hold(manager, asks("a", need=300, label=label))
    found = run("limit", "show", "orders", "--json").json["learned"]
    assert [(one["kind"], one["dimension"]) for one in found] == [("good", "?[2J")]
    people = keys_of("dispatcher", "orders")[2]
    with Redis.from_url(url) as client:
        client.hset(people, "=a", b"\xff\n" * 100_000 + b"1\t1\t0\t\tlate")
    said = run("limit", "show", "orders")
    assert (said.code, "late" in said.out) == (0, False)
