"""The cluster, live, on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dispatcher.timeline import Message, Timeline
from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from tests.commands import COMMAND, PATIENCE, Run, asks, hide, hold, make, unsaid_redis
from tests.processes import Processes
from tests.processes.plan import Plan
from tests.servers.ports import own_port
from tests.terminals import Terminal
from tests.waiting import until

LIVE = [*COMMAND, "top", "orders", "--topic", "mails", "--interval", "0.05"]


@pytest.fixture
def mails(url: str) -> Timeline:
    timeline = Timeline(url, "mails")
    timeline.producer("us").create([Message(n) for n in range(12)])
    return timeline


def test_once_shows_limits_and_topics_as_text(
    run: Run, manager: RedisLeaseManager, mails: Timeline
) -> None:
    hold(manager, asks("a", need=600, label="here:1"), asks("b", need=400, label="there:2"))
    said = run("top", "orders", "--topic", "mails", "--once")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert "limit orders: 1,000 in 0.05 s" in lines
    [cells] = [line for line in lines if line and set(line) <= set("AB.")]
    assert (cells.count("A"), cells.count("B"), cells.count(".")) == (60, 40, 0)
    assert any(line.startswith("A here:1") for line in lines)
    assert "no consumer of mails" in lines
    assert "\x1b" not in said.out


def test_once_for_scripts(run: Run, manager: RedisLeaseManager, mails: Timeline) -> None:
    hold(manager, asks("a", need=1_000, label="here:1"))
    told = run("top", "orders", "--topic", "mails", "--once", "--json").json
    assert told["limits"]["orders"]["held"] == 10
    assert told["limits"]["orders"]["instances"][0]["label"] == "here:1"
    assert told["topics"]["mails"]["new"] == 12


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--once"], 3, "there is no limit and no topic in redis://127.0.0.1:"),
        (["nothing", "--once"], 3, "there is no limit 'nothing' in redis://127.0.0.1:"),
        (["--topic", "nothing", "--once"], 3, "there is no topic 'nothing'"),
        (["orders", "--interval", "0"], 2, "interval must be more than zero"),
        (["orders", "--interval", "often"], 2, "--interval: 'often': not a number"),
    ],
)
def test_what_is_wrong_is_reported(
    run: Run, url: str, words: list[str], code: int, message: str
) -> None:
    said = run("top", *words)
    assert (said.code, said.out) == (code, "")
    assert message in said.err


def test_without_redis_once_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    unsaid_redis(monkeypatch, f"redis://127.0.0.1:{own_port()}/0")
    said = run("top", "orders", "--once")
    assert (said.code, said.err.count("\n")) == (4, 1)
    assert "refuses connections" in said.err
    assert "Name another Redis: --redis URL" in said.err


@pytest.mark.parametrize(
    ("with_rich", "end", "code"),
    [(True, "\x03", 130), (False, "\x03", 130), (True, "xq", 0), (False, "q", 0)],
)
def test_a_terminal_is_left_as_it_was(
    manager: RedisLeaseManager,
    mails: Timeline,
    tmp_path: Path,
    with_rich: bool,
    end: str,
    code: int,
) -> None:
    hold(manager, asks("a", need=300, label="here:1"))
    if not with_rich:
        hide(tmp_path, "rich")
    with Terminal(LIVE, PYTHONPATH=str(tmp_path), COLUMNS="80", LINES="30") as terminal:
        before = terminal.mode()
        assert terminal.read_until("\x1b[?1049h\x1b[?25l") == "\x1b[?1049h\x1b[?25l"
        for _ in range(3):
            seen = terminal.read_until("no consumer of mails")
        assert "\x1b[H" in seen
        assert ("\x1b[36m" in seen) == with_rich
        assert terminal.mode() != before  # a letter is read as it is typed
        terminal.type(end)
        terminal.read_until("\x1b[?25h\x1b[?1049l")
        assert terminal.end() == code
        assert terminal.mode() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was_too(
    mails: Timeline, number: signal.Signals
) -> None:
    with Terminal(LIVE) as terminal:
        before = terminal.mode()
        terminal.read_until("no consumer of mails")
        os.kill(terminal.pid, number)
        terminal.read_until("\x1b[?25h\x1b[?1049l")
        assert terminal.end() == 128 + number
        assert terminal.mode() == before


def test_ctrl_z_gives_the_screen_back_until_it_goes_on(mails: Timeline) -> None:
    with Terminal(LIVE) as terminal:
        terminal.read_until("no consumer of mails")
        os.kill(terminal.pid, signal.SIGTSTP)
        terminal.read_until("\x1b[?25h\x1b[?1049l")
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.read_until("\x1b[?1049h\x1b[?25l")
        terminal.read_until("no consumer of mails")
        terminal.type("q")
        assert terminal.end() == 0


def test_without_a_name_all_are_shown_also_those_that_come_later(
    run: Run, manager: RedisLeaseManager, mails: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(manager, asks("a", need=300, label="here:1"))
    told = run("top", "--once", "--json").json
    assert (list(told["limits"]), list(told["topics"])) == (["orders"], ["mails"])
    assert abs(told["at"] - time.time() * 1000) < 60_000
    with Terminal([*COMMAND, "top", "--interval", "0.05"]) as terminal:
        shown = terminal.read_until("no consumer of mails")
        assert ": 1,000 in 0.05 s" in shown
        assert "q leaves" in shown
        terminal.type("q")
        assert terminal.end() == 0


def test_it_says_that_redis_is_away_and_comes_back_by_itself() -> None:
    with (
        EmbeddedRedis() as server,
        closing(RedisLeaseManager(server.url, name="orders")) as manager,
        Terminal([*LIVE, "--redis", server.url]) as terminal,
    ):
        terminal.read_until("limit orders: there is no such limit")
        make(manager)
        terminal.read_until("1,000 in 0.05 s")
        server.kill()
        assert "this is from" in terminal.read_until("retrying")
        terminal.read_until("1,000 in 0.05 s")  # what was known stays
        server.start()
        make(manager, 777)
        terminal.read_until("777 in 0.05 s")
        assert "asked again" not in terminal.read_until("777 in 0.05 s")
        terminal.type("\x03")
        assert terminal.end() == 130


def test_it_may_be_started_before_redis() -> None:
    url = f"redis://127.0.0.1:{own_port()}/0"
    with Terminal([*LIVE, "--redis", url]) as terminal:
        said = terminal.read_until("retrying")
        assert "refuses connections" in said
        terminal.type("\x03")
        assert terminal.end() == 130


def test_lines_of_json_go_on_until_the_reader_has_seen_enough(mails: Timeline) -> None:
    with subprocess.Popen(
        [*LIVE, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told: list[Any] = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.stdout.close()
        assert process.wait(PATIENCE) == 1
        assert process.stderr.read() == ""
    assert told[0]["limits"] == {"orders": None}
    assert told[2]["topics"]["mails"]["new"] == 12


def test_real_processes_are_shown(run: Run, url: str) -> None:
    plan = Plan(url, log="", shared_capacity=1_000, factor=100, max_interval=0.1, operations=None)
    with Processes(plan) as processes:
        processes.start([["i0"], ["i1"]])

        def letters() -> set[str]:
            said = run("top", "orders", "--once")  # which there may not be yet
            rows = [line for line in said.out.splitlines() if line and set(line) <= set("AB.")]
            return set("".join(rows))

        until(lambda: letters() >= {"A", "B"})
        told = run("top", "orders", "--once", "--json").json["limits"]["orders"]
        assert told["demand"] > 1_000
