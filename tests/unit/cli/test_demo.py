"""The figures of the demo are those of what its datastores saw."""

from __future__ import annotations

import math

import pytest

from dispatcher.cli._commands.demo.outcome import DemoOutcome
from dispatcher.cli._commands.demo.summary import facts, remarks
from dispatcher.cli.datastore import Datastore
from dispatcher.report import Entry


def outcome(writes: list[Entry], refusals: list[Entry], **more: object) -> DemoOutcome:
    datastore = Datastore(100)
    datastore.entries = writes
    datastore.refusals = refusals
    datastore.refused = len(refusals)
    known: dict[str, object] = {
        "title": "one",
        "datastore": datastore,
        "processes": ["a", "b", "c", "d"],
        "best": 2.0,
        "began": 10.0,
        "killed_at": 11.0,
        "killed": "b",
    }
    return DemoOutcome(**{**known, **more})  # type: ignore[arg-type]


WRITES = [Entry(10.0, "a", 50), Entry(10.5, "b", 50), Entry(12.5, "a", 100)]


def test_the_table_is_made_of_what_the_datastore_saw() -> None:
    refusals = [Entry(10.9, "b", 150)]
    table = dict(facts(outcome(WRITES, refusals)))
    assert table == {
        "calls refused (429)": "1",
        "calls wasted": "25 %",
        "most asked in a second": "2.5 x limit",
        "time (2.0 s at best)": "2.5 s",
        "used of the limit": "80 %",
        "fairness (Jain's index)": "0.50",  # two of four have written, as much as one another
        "share of the killed one": "-",
        "needs Redis": "no",
    }


def test_fairness_is_judged_until_the_kill_and_counts_who_wrote_nothing() -> None:
    assert outcome(WRITES, [], killed_at=10.2).fairness == 0.25
    assert outcome(WRITES, [], killed_at=9.0).fairness == 1.0
    even = [Entry(10.0, name, 10) for name in "abcd"]
    assert outcome(even, []).fairness == pytest.approx(1.0)


def test_the_share_of_the_killed_process_is_free_when_it_holds_nothing_any_more() -> None:
    looks = [(10.5, {"a": 0.5}), (11.5, {"a": 0.5, "b": 0.5}), (13.25, {"a": 1.0})]
    shared = outcome(WRITES, [], holdings=looks)
    assert shared.freed_after == 2.25
    table = dict(facts(shared))
    assert (table["share of the killed one"], table["needs Redis"]) == ("free after 2.2 s", "yes")
    unseen = outcome(WRITES, [], holdings=looks[:2])
    assert dict(facts(unseen))["share of the killed one"] == "-"


def test_it_is_not_free_again_if_it_was_not_seen_to_be_held() -> None:
    idle = [(10.5, {"a": 0.5, "b": 0.5}), (10.9, {"a": 1.0}), (11.5, {"a": 1.0})]
    assert outcome(WRITES, [], holdings=idle).freed_after is None
    assert outcome(WRITES, [], holdings=[(10.9, {"b": 1.0}), (14.0, {})]).freed_after == 3.0


@pytest.mark.parametrize(
    ("later", "quarters", "own"),
    [
        ({"a": 20, "c": 20, "d": 20}, "never used", "-"),
        ({"a": 30, "c": 30, "d": 30}, "never used", "used by all"),
        ({"a": 90}, "-", "-"),  # the others had no work
        ({}, "-", "-"),
    ],
)
def test_what_became_of_the_killed_ones_share_follows_from_the_writes_after_the_kill(
    later: dict[str, float], quarters: str, own: str
) -> None:
    writes = [*WRITES[:2], *(Entry(11.1, name, cost) for name, cost in later.items())]
    for said, way in (quarters, True), (own, False):
        table = dict(facts(outcome(writes, [], quarters=way)))
        assert table["share of the killed one"] == said


@pytest.mark.parametrize(
    ("capacity", "records", "best"),
    [(20_000, 12_000, 5), (1_000, 100, 0), (1_000, 101, 1), (1_005, 250, 2), (1_000, 300, 2)],
)
def test_the_time_at_best_is_what_the_datastore_allows(
    capacity: float, records: int, best: int
) -> None:
    datastore = Datastore(capacity)
    assert datastore.seconds_at_best(records, 10) == best
    second = int(capacity / 10)
    writes = [Entry(at, "a", 10 * second) for at in range(math.ceil(records / second))]
    datastore.entries = writes
    assert datastore.most_asked() <= 1
    assert writes[-1].at == best


@pytest.mark.parametrize("refused", [0, 3])
def test_the_text_below_the_table_does_not_contradict_it(refused: int) -> None:
    quarter, own, shared = (
        outcome(WRITES, refused * [Entry(10.9, "b", 150)], title=title)
        for title in ("a quarter each", "on their own", "sharing the limit")
    )
    said = " ".join(remarks([quarter, own, shared]))
    assert "no refused" not in said
    assert ("A few refusals are possible" in said) == bool(refused)
