"""Logs: every line says what has happened by a name and in numbers, and none is a flood."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher import Batcher, Operation, Reject, Watcher
from dispatcher._core.batches.failure_log import FailureLog
from limiters import MemoryLeaseManager, SharedResource
from limiters._sharing.share_events import Announcements
from limiters._support.rate_limited_log import MOST_KINDS, Damper
from limiters.errors import LeaseManagerError
from limiters.events import SHARED_EVENTS, Emitter
from limiters.leases._messages import Reply, Request, Terms
from tests.logged import told_of
from tests.waiting import until

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "logs.md").read_text()
AREAS = {"dispatcher._core": "dispatcher.batcher", "dispatcher.cli": "dispatcher.exporter"}
LOGS = {"self._sparse", "_log", "logger", "_damped", "self._damped", "self._log"}
CALLS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
TERMS = Terms.scalar(capacity=100, factor=10, period=1_000, lease=2_000)


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    return [
        (path, ast.parse(path.read_text()))
        for package in ("dispatcher", "limiters")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]


def facts_of(call: ast.Call, module: ast.Module) -> ast.Dict:
    """Return the `extra` of a call: written there, or just before."""
    given = next(one.value for one in call.keywords if one.arg == "extra")
    if isinstance(given, ast.Name):
        before = [
            node.value
            for node in ast.walk(module)
            if isinstance(node, ast.Assign)
            and node.lineno < call.lineno
            and ast.unparse(node.targets[0]) == given.id
        ]
        given = max(before, key=lambda one: one.lineno)
    assert isinstance(given, ast.Dict)
    return given


class Line(NamedTuple):
    """One line that there can be."""

    where: str
    happening: str
    level: str
    facts: frozenset[str]
    more: bool
    """Whether it has further facts, whose names are defined elsewhere."""


def happenings_of(value: ast.expr, call: ast.Call, module: ast.Module) -> list[str]:
    """The happening of a line; for a parameter, all that its function is called with."""
    if isinstance(value, ast.Constant):
        return [str(value.value)]
    functions = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and call in ast.walk(node)
    ]
    inner = max(functions, key=lambda it: it.lineno)
    names = [one.arg for one in inner.args.args if one.arg != "self"]
    place = names.index(ast.unparse(value))
    calls = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"self.{inner.name}"
    ]
    assert calls
    return [str(ast.literal_eval(one.args[place])) for one in calls]


@cache
def lines() -> list[Line]:
    """Each line there can be."""
    return list(_lines())


def _lines() -> Iterator[Line]:
    for path, module in modules():
        for node in ast.walk(module):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in CALLS
                and ast.unparse(node.func.value) in LOGS
            ):
                where = f"{path.name}:{node.lineno}"
                assert any(one.arg == "extra" for one in node.keywords), where
                facts = facts_of(node, module)
                names = [str(one.value) for one in facts.keys if isinstance(one, ast.Constant)]
                assert names[0] == "happening", where
                for happening in happenings_of(facts.values[0], node, module):
                    more = None in facts.keys
                    yield Line(where, happening, node.func.attr, frozenset(names[1:]), more)


class Promised(NamedTuple):
    """A row of the table."""

    level: str
    facts: frozenset[str]
    either: frozenset[str]
    """Alternatives, of which at least one is there."""


def table() -> dict[str, Promised]:
    _, *rows = re.findall(r"^\| (`[a-z-]+`.*?) \| (.*?) \| (.*?) ?\|", DOCUMENT, re.MULTILINE)
    promised: dict[str, Promised] = {}
    for names, level, text in rows:
        either = re.findall(r"`(\w+)` or `(\w+)`", text)
        one_of = frozenset(either[0]) if either else frozenset[str]()
        facts = frozenset(re.findall(r"`([a-z_]+)`", re.sub(r"\([^)]*\)", "", text))) - one_of
        for name in re.findall(r"`([a-z-]+)`", names):
            assert name not in promised, name
            promised[name] = Promised(level, facts, one_of)
    return promised


def _last_name(function: ast.expr) -> str:
    """Of what is called: `logging.getLogger` and `getLogger` are both getLogger."""
    return getattr(function, "attr", getattr(function, "id", ""))


def test_each_module_logs_under_a_public_name_of_its_area() -> None:
    table = DOCUMENT.partition("## What there is")[0]
    documented = set(re.findall(r"^\| `([a-z.]+)` \|", table, re.MULTILINE))
    used: set[str] = set()
    for path, module in modules():
        area = ".".join(path.relative_to(ROOT).with_suffix("").parts[:2])
        area = AREAS.get(area, area)
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and _last_name(node.func) == "getLogger":
                # The root is for the command line alone, which sets it up.
                if not node.args and not node.keywords and "cli" in path.parts:
                    continue
                [name] = [ast.literal_eval(one) for one in node.args]
                assert name in documented, path
                assert path.is_relative_to(ROOT / "limiters") or f"{name}.".startswith(f"{area}.")
                used.add(name)
    assert used == documented


def test_each_line_has_exactly_the_facts_that_the_table_promises() -> None:
    found, promised = lines(), table()
    assert len(found) > 60
    usual = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
    for line in found:
        assert line.happening in promised, line
        row = promised[line.happening]
        assert not line.facts & usual, f"{line}: logging refuses these names"
        assert line.facts >= row.facts, f"{line} lacks {row.facts - line.facts}"
        if row.either:
            assert line.facts & row.either, f"{line} has none of {row.either}"
        if not line.more:
            assert line.facts <= row.facts | row.either, f"{line} has more than the table"


def test_each_line_has_a_level_that_the_table_names() -> None:
    promised = table()
    for line in lines():
        level = {"exception": "error", "log": ""}.get(line.level, line.level)
        assert level in promised[line.happening].level, line


def test_each_documented_happening_is_one_that_there_is() -> None:
    promised = table()
    assert len(promised) > 50
    assert promised.keys() == {line.happening for line in lines()}


def test_a_failed_batch_logs_its_numbers(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(batch: list[Operation]) -> None:
        raise Reject("no such table")

    watcher = Watcher(refuse)
    with caplog.at_level(logging.INFO), Batcher() as batcher:
        batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(3)])
    [facts] = told_of("batch-failed", caplog)
    assert facts["name"] == "dispatcher.batcher.failures"
    assert (facts["operations"], facts["again"], facts["failed"]) == (3, 0, 3)
    assert (facts["error"], facts["left_out"]) == ("Reject", 0)


def test_b6_a_callback_that_fails_a_thousand_times_is_no_flood(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(batch: list[Operation]) -> None:
        raise KeyError("no luck today")

    heard: list[object] = []
    with Batcher() as batcher:
        batcher.add_listener(heard.append, "batch-failed")
        # A watcher for each request, as services have it.
        batcher.enqueue_many([Operation(Watcher(fail), 1, n) for n in range(1_000)])
    until(lambda: len(heard) == 1_000)
    assert batcher.totals.batches_failed == 1_000
    told = told_of("batch-failed", caplog)
    spent = told[-1]["created"] - told[0]["created"]
    assert 10 <= len(told) <= 10 * (1 + spent // 10 + 1)
    assert all(it["exc_info"] for it in told)


def test_what_was_left_out_is_counted_with_the_next_line(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailureLog()
    terms = Watcher(print)._terms
    for second in range(60):
        for _ in range(100):
            failures.batch_abandoned(float(second), terms, TimeoutError("slow"), [])
    told = told_of("batch-abandoned", caplog)
    assert len(told) == 60
    assert len(told) + sum(it["left_out"] for it in told) == 5_000 + 10
    assert told[10]["left_out"] == 990
    assert {it["funcName"] for it in told} == {"batch_abandoned"}  # and not that of the damped log
    assert "and 990 like this since the last line" in told[10]["message"]


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(0, 200)), max_size=300), st.integers(1, 5))
def test_a_damper_counts_all_and_holds_little(gaps: list[tuple[float, int]], most: int) -> None:
    damper, now = Damper(most=most, per=10.0), 0.0
    told: dict[int, list[float]] = {}
    asked = through = out = 0
    for gap, kind in gaps:
        now += gap
        asked += 1
        left_out = damper.left_out(kind, now)
        assert len(damper._kinds) <= MOST_KINDS
        if left_out is not None:
            told.setdefault(kind, []).append(now)
            through += 1
            out += left_out
    assert through + out <= asked
    if len({kind for _, kind in gaps}) <= MOST_KINDS:
        for times in told.values():
            for at in times:
                # Of any ten seconds: the end of one span and the beginning of the next.
                assert sum(at <= other < at + 10 for other in times) <= 2 * most


def test_c7_a_lease_manager_that_is_away_for_a_minute_is_two_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    emitter = Emitter("test", SHARED_EVENTS)
    announce = Announcements(emitter, TERMS, "orders")
    for _ in range(120):  # twice a second
        announce.lost(LeaseManagerError("Redis does not answer"))
    [away] = told_of("leases-away", caplog)
    assert (away["limit"], away["error"]) == ("orders", "LeaseManagerError")
    for number in range(120):  # and one that says something else each time
        announce.lost(LeaseManagerError(f"connection {number} was reset"))
    assert len(told_of("leases-away", caplog)) <= 5


def test_c7_the_outage_of_each_limiter_is_a_line_also_of_one_in_the_place_of_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    emitter = Emitter("test", SHARED_EVENTS)
    for _ in range(10):  # each in the memory of the one before
        Announcements(emitter, TERMS, "orders").lost(LeaseManagerError("away"))
    assert len(told_of("leases-away", caplog)) == 10


def test_the_command_against_other_terms_names_what_differs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = MemoryLeaseManager("orders")
    made: dict[str, Any] = {"lease_manager": manager, "period": 1.0}
    with SharedResource(shared_capacity=200, factor=20, **made) as first:
        first.give_me(20)
        until(lambda: first.capacity > 0)
        with SharedResource(shared_capacity=100, factor=10, **made) as second:
            second.give_me(10)
            until(lambda: bool(told_of("other-terms", caplog)))
    [told] = told_of("other-terms", caplog)
    command = "dispatcher limit set orders --shared-capacity 100 --factor 10"
    assert told["message"].endswith(f"for all: {command}")


class Away(MemoryLeaseManager):
    """A lease manager that answers on request."""

    away = False
    asked = 0

    def sync(self, request: Request) -> Reply:
        self.asked += 1
        if self.away:
            raise LeaseManagerError("away")
        return super().sync(request)


def test_c7_each_request_without_an_answer_is_not_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = Away("orders", lease_time=0.2)
    limiter = SharedResource(
        shared_capacity=1_000, factor=10, lease_manager=manager, max_interval=0.01, period=0.05
    )
    with limiter:
        limiter.give_me(500)
        until(lambda: limiter.capacity > 0)
        manager.away = True
        before = manager.asked
        until(lambda: manager.asked > before + 30)
        manager.away = False
        until(lambda: any("are served again" in it.message for it in caplog.records))
    away, [back] = told_of("leases-away", caplog), told_of("leases-back", caplog)
    assert 1 <= len(away) <= 2
    assert away[0]["created"] < back["created"]


def test_a_listener_that_is_always_behind_is_no_flood_and_each_event_lost_is_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Emitter, "MOST_WAITING", 2)
    emitter, heard = Emitter("Somebody", frozenset({"target"})), 0
    emitted = 1

    def slow(event: object) -> None:
        nonlocal heard, emitted
        heard += 1
        if heard <= 1_000:
            emitted += 5
            for _ in range(5):
                emitter.emit("target")

    emitter.add_listener(slow)
    emitter.emit("target")
    until(lambda: heard > 1_000 and not emitter._waiting.qsize())
    emitter.close()
    told = told_of("events-lost", caplog)
    assert {it["owner"] for it in told} == {"Somebody"}
    assert 1 <= len(told) <= 3 + (told[-1]["created"] - told[0]["created"]) // 10
    assert sum(it["events"] for it in told) == emitted - heard


def test_a_listener_that_raises_a_thousand_times_is_no_flood(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(event: object) -> None:
        calls.append(event)
        raise ValueError("broken listener")

    calls: list[object] = []
    emitter = Emitter("Somebody", frozenset({"target"}))
    emitter.add_listener(broken)
    for number in range(1_000):
        emitter.emit("target", number)
    until(lambda: len(calls) == 1_000)
    emitter.close()
    told = told_of("listener-raised", caplog)
    spent = told[-1]["created"] - told[0]["created"]
    assert 10 <= len(told) <= 10 * (2 + spent // 10)
    assert {(it["owner"], it["event"]) for it in told} == {("Somebody", "target")}
