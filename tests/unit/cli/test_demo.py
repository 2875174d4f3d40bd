"""The figures of the demo are those of what its datastores saw."""

from __future__ import annotations

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
        "share_of_killed": "never used",
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
        "share of the killed one": "never used",
        "needs Redis": "no",
    }


def test_fairness_is_judged_until_the_kill_and_knows_who_wrote_nothing() -> None:
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


@pytest.mark.parametrize("refused", [0, 3])
def test_what_is_said_below_the_table_does_not_contradict_it(refused: int) -> None:
    quarter, own, shared = (
        outcome(WRITES, refused * [Entry(10.9, "b", 150)], title=title)
        for title in ("a quarter each", "on their own", "sharing the limit")
    )
    said = " ".join(remarks([quarter, own, shared]))
    assert "no refused" not in said
    assert ("A few refusals are possible" in said) == bool(refused)
