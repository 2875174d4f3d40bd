"""Commands that read a topic, on the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatcher.timeline import Message, Timeline
from limiters.embedded import EmbeddedRedis
from tests.commands import COMMAND, Run, unsaid_redis
from tests.servers.ports import own_port
from tests.terminals import Terminal


@pytest.fixture
def mails(url: str) -> Timeline:
    """Two that are due, three that wait, and one of them is another group's."""
    timeline = Timeline(url, "mails")
    timeline.producer("us").create([Message({"n": n}, id=f"due-{n}") for n in range(2)])
    timeline.producer("us").create([Message("later", id="in-1h", delay=3_600)])
    timeline.producer("us").create([Message("\x1b[2J", id="in-2h", delay=7_200)])
    timeline.producer("them").create([Message(b"\xff", id="in-3h", delay=10_800)])
    return timeline


def test_stats_counts(run: Run, mails: Timeline) -> None:
    said = run("timeline", "stats", "mails")
    assert (said.code, said.err) == (0, "")
    rows = {row[0]: row[1:] for line in said.out.splitlines() if (row := line.split())}
    assert (rows["new"][0], rows["waiting"][0], rows["created"][0]) == ("2", "3", "5")
    assert "the next one in" not in said.out  # the first message without a lease is due
    assert "No consumer is running, and messages are due." in said.out
    told = run("timeline", "stats", "mails", "--json").json
    assert (told["topic"], told["new"], told["waiting"], told["buckets"]) == ("mails", 2, 3, 64)
    assert told["created"] == told["deleted"] + told["dead"] + told["remaining"]


def test_peek_shows_the_first_and_leases_nothing(run: Run, mails: Timeline) -> None:
    said = run("timeline", "peek", "mails", "--limit", "3")
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines] == ["id", "due-0", "due-1", "in-1h"]
    assert lines[1].endswith('{"n": 0}')
    assert "due in 60 min" in lines[3]
    assert mails.stats().processing == 0
    assert "\x1b" not in run("timeline", "peek", "mails").out


def test_peek_for_scripts_prints_everything(run: Run, mails: Timeline) -> None:
    said = run("timeline", "peek", "mails", "--state", "waiting", "--json")
    told = [json.loads(line) for line in said.out.splitlines()]
    assert [it["id"] for it in told] == ["in-1h", "in-2h", "in-3h"]
    assert [it.get("body") for it in told] == ["later", "\x1b[2J", None]
    assert (told[2]["body_base64"], told[2]["group"]) == ("/w==", "them")
    ranged = run("timeline", "peek", "mails", "--from", "+30m", "--to", "+90m", "--json")
    assert ranged.json["id"] == "in-1h"
    assert run("timeline", "peek", "mails", "--id", "in-3h", "--json").json == told[2]


def test_peek_that_finds_nothing(run: Run, mails: Timeline) -> None:
    assert run("timeline", "peek", "mails", "--state", "lost").out == "no such message\n"
    assert run("timeline", "peek", "mails", "--state", "lost", "--json").out == ""
    said = run("timeline", "peek", "mails", "--id", "due-0", "--id", "nothing")
    assert (said.code, said.out) == (3, "")
    assert "there is no message nothing in this topic" in said.err


def test_dead_shows_what_was_given_up(run: Run, url: str) -> None:
    timeline = Timeline(url, "mails", max_attempts=1)
    assert run("timeline", "dead", "mails").code == 3
    timeline.producer("us").create([Message("bad", id="bad")])
    assert run("timeline", "dead", "mails").out == "no message is dead\n"
    make_dead(timeline)
    assert " dead  " in run("timeline", "dead", "mails").out
    told = run("timeline", "dead", "mails", "--json").json
    assert (told["id"], told["state"], told["attempts"], told["body"]) == ("bad", "dead", 1, "bad")


def test_peek_shows_times_that_no_calendar_has(run: Run, mails: Timeline) -> None:
    """A time is rounded up to a millisecond: so the last microsecond of 9999 is in 10000."""
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    mails.producer("us").create([Message("far", id="far", at=last)])
    shown = run("timeline", "peek", "mails", "--id", "far").out
    assert "253402300800000 ms" in shown
    assert run("timeline", "peek", "mails", "--id", "far", "--json").json["time"] == 253402300800000


def make_dead(timeline: Timeline) -> None:
    """Lets what is due be leased, and not deleted, until all of it is dead."""
    consumer = timeline.consumer("fails")
    while timeline.stats().remaining:
        consumer.lease(100, for_=0.001)


def test_histogram_counts_by_time(run: Run, mails: Timeline) -> None:
    said = run("timeline", "histogram", "mails", "--to", "+4h", "--step", "1h")
    lines = said.out.splitlines()
    assert lines[0] == "topic mails, all that live"
    assert lines[3].split() == ["before", "2"]
    assert [line.split()[2] for line in lines[4:8]] == ["1", "1", "1", "0"]  # a moment has passed
    assert lines[-1] == "5 altogether"
    told = run("timeline", "histogram", "mails", "--from=-1h", "--to", "+4h", "--json").json
    assert sum(number for _, number in told["steps"]) == 5
    assert (told["before"], told["after"], told["topic"]) == (0, 0, "mails")
    assert len(told["steps"]) <= 31
    said = run("timeline", "histogram", "mails", "--to", "+90m", "--state", "waiting", "--json")
    assert (said.json["before"], said.json["after"]) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["stats", "mial"], 3, "there is no topic 'mial' in redis://127.0.0.1:"),
        (["peek", "mial"], 3, "dispatcher timeline create mial --create-topic"),
        (["histogram", "mial"], 3, "there is no topic 'mial'"),
        (["peek", "mails", "--limit", "0"], 2, "dispatcher: --limit must be at least 1, not 0"),
        (["peek", "mails", "--limit", "501"], 2, "limit must be at most 500"),
        (["peek", "mails", "--from", "soon"], 2, "a time is written like now, +5m"),
        (["peek", "mails", "--state", "gone"], 2, "invalid choice: 'gone'"),
        (["peek", "mails", "extra"], 2, "timeline peek: error: unrecognized arguments: extra"),
        (["histogram", "mails", "--to=-1h"], 2, "--to must be after --from"),
        (
            ["histogram", "mails", "--to", "+100d", "--step", "1s"],
            2,
            "--step must make at most 10000",
        ),
        (["histogram", "mails", "--step", "0"], 2, "--step must be more than zero"),
        (["stats"], 2, "the following arguments are required: TOPIC"),
        (["stats", "ma{i}ls"], 2, "topic must be without braces"),
        ([], 2, "the following arguments are required: ACTION"),
        ([], 2, "how many messages in which state, and how late"),
        (["peek", "mails", "--from", "-2h"], 2, "is written with =, --from=-..."),
    ],
)
def test_what_is_wrong_is_reported(
    run: Run, mails: Timeline, arguments: list[str], code: int, message: str
) -> None:
    said = run("timeline", *arguments)
    assert (said.code, said.out) == (code, "")
    assert message in said.err
    assert mails.stats().created == 5


def test_looking_at_a_topic_that_is_not_there_does_not_make_it(run: Run, url: str) -> None:
    for action in (["stats"], ["peek"], ["dead"], ["histogram"], ["requeue"], ["delete", "--all"]):
        assert run("timeline", action[0], "mial", *action[1:]).code == 3
    assert not Timeline(url, "mial").exists()


def test_no_redis_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    unsaid_redis(monkeypatch, f"redis://127.0.0.1:{own_port()}/0")
    for action in ("stats", "peek", "dead", "histogram", "requeue"):
        said = run("timeline", action, "mails")
        assert (said.code, said.out, said.err.count("\n")) == (4, "", 1)
        assert "refuses connections" in said.err
        assert "Name another Redis: --redis URL" in said.err


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_only_on_a_terminal(
    run: Run, url: str, environment: dict[str, Any], coloured: bool
) -> None:
    timeline = Timeline(url, "mails", max_attempts=1)
    timeline.producer("us").create([Message("bad", id="bad")])
    make_dead(timeline)
    assert "\x1b" not in run("timeline", "stats", "mails").out
    with Terminal([*COMMAND, "timeline", "stats", "mails"], **environment) as terminal:
        said = terminal.read_until("buckets")
    assert ("\x1b[31m" in said) == coloured


@pytest.mark.parametrize("columns", ["40", "80"])
def test_a_narrow_terminal(mails: Timeline, columns: str) -> None:
    arguments = [*COMMAND, "timeline", "peek", "mails", "--id", "due-1"]
    with Terminal(arguments, COLUMNS=columns) as terminal:
        assert "due-1" in terminal.read_until("}")
        assert terminal.end() == 0


def test_a_password_shows_nowhere(
    run: Run, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedRedis(password="zq1") as server:
        Timeline(server.url, "mails").producer("us").create([Message("x", id="x")])
        for url in (server.url, server.url.replace("zq1", "zq5")):
            monkeypatch.setenv("DISPATCHER_REDIS", url)
            for words in (
                ["timeline", "stats", "mails"],
                ["timeline", "stats", url],
                ["timeline", "delete", "mails", "x", "y"],
                ["timeline", "stats", "mails", "--config", url],
                ["top", "--topic", "mails", "--once"],
                ["top", url, "--once"],
                ["top", "--once"],
            ):
                said = run(*words)
                assert said.out + said.err
                assert "zq" not in said.out + said.err, os.linesep.join(words)
