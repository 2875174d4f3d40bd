"""How an operator writes times and messages, and how they are shown to him."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from typing import Any

import pytest

from dispatcher.cli._commands.timeline import histogram, peek, stats
from dispatcher.cli._commands.timeline.incoming import from_lines
from dispatcher.cli._commands.timeline.wording import as_json, summed_up
from dispatcher.cli._terminal.progress import progress_line
from dispatcher.cli._terminal.tables import plain
from dispatcher.cli._text.bars import bar
from dispatcher.cli._text.moments import When, from_now, seconds_of, shown, when_of
from dispatcher.timeline import Message, Snapshot, Stats, Status

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "ms", "relative"),
    [
        ("now", 0, True),
        ("+90", 90_000, True),
        ("-1h30m", -5_400_000, True),
        ("1800000000000", NOW, False),
        ("2027-01-15T08:00Z", NOW, False),
        ("2027-01-15T09:00:00.5+01:00", NOW + 500, False),
    ],
)
def test_times(text: str, ms: int, relative: bool) -> None:
    assert when_of(text) == When(ms, relative)


def test_a_time_without_a_zone_is_of_this_machine() -> None:
    assert shown(when_of("2026-05-01T08:00:00").at(0)) == "2026-05-01 08:00:00"
    assert when_of("2026-05-01").ms == datetime(2026, 5, 1).timestamp() * 1000
    assert When(5_000, relative=True).at(NOW) == NOW + 5_000


@pytest.mark.parametrize(
    "text", ["soon", "", "+", "+5x", "18000000", "2026-13-01", "5 m", "+-5m", "0001-01-01"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"written like|13 digits"):
        when_of(text)


@pytest.mark.parametrize("text", ["", "m", "-5", "5y", "1h 30m", "1e3", "inf"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a duration is written like"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "said"),
    [
        (0, 10, 0.0, "moving: 0 of 10 (0 %)"),
        (5, 10, 60.0, "moving: 5 of 10 (50 %), 60 s left"),
        (10, 10, 60.0, "moving: 10 of 10 (100 %)"),
        (12, 10, 60.0, "moving: 12 of 12 (100 %)"),
        (0, None, 0.0, "moving: 0"),
        (500, None, 2.0, "moving: 500, 250 a second"),
    ],
)
def test_progress(done: int, total: int | None, elapsed: float, said: str) -> None:
    assert progress_line("moving", done, total, elapsed) == said


def test_bars_are_in_proportion_and_something_is_never_nothing() -> None:
    assert [len(bar(part, 100, 50)) for part in (0, 1, 50, 100, 200)] == [0, 1, 25, 50, 50]
    assert bar(1, 0, 50) == bar(-1, 5, 50) == ""


def lines(*texts: str, **more: Any) -> list[Message | str]:
    return [it for _, it in from_lines(texts, **more)]


def test_lines_of_json_are_messages() -> None:
    assert lines(
        '{"body": {"user": 7}, "id": "a", "delay": "5m"}',
        "",
        '{"body": null, "at": 1800000000000}',
        '{"body_base64": "/w==", "at": "+2s"}',
        '{"body": "plain", "delay": 1.5}',
    ) == [
        Message({"user": 7}, id="a", delay=300.0),
        Message(None, at=NOW),
        Message(b"\xff", delay=2.0),
        Message("plain", delay=1.5),
    ]


def test_lines_that_say_no_time_have_the_one_that_is_given() -> None:
    assert lines('{"body": 1}', '{"body": 2, "delay": 0}', at=When(NOW, relative=False)) == [
        Message(1, at=NOW),
        Message(2, delay=0.0),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at column"),
        ("[1]", 'each line must be like {"body": ...}, not [1]'),
        ('{"bod": 1}', 'there is no "bod"; there are body, body_base64'),
        ("{}", "there must be a body, or a body_base64"),
        ('{"body": 1, "body_base64": ""}', "there must be a body, or a body_base64"),
        ('{"body_base64": "%"}', "body_base64 must be base64"),
        ('{"body_base64": 5}', "body_base64 must be base64"),
        ('{"body": 1, "id": 7}', "id must be a text, not 7"),
        ('{"body": 1, "at": true}', "at must be a time or epoch milliseconds, not true"),
        ('{"body": 1, "at": "-5m"}', "at must not be before now"),
        ('{"body": 1, "delay": "later"}', 'delay is "later": a duration is written like'),
        ('{"body": 1, "at": "now", "delay": 1}', "delay must be left out if there is an at"),
    ],
)
def test_what_is_wrong_with_a_line_is_reported(text: str, said: str) -> None:
    [told] = lines(text)
    assert isinstance(told, str)
    assert said in told


def a_message(body: Any = "hello", status: Status = Status.NEW, **known: Any) -> Snapshot:
    known = {"id": "a", "time": NOW, "version": 1, "attempts": 0, "group": "us", **known}
    return Snapshot(body=body, status=status, **known)


def test_peek_crops_bodies_to_the_terminal_and_harms_none() -> None:
    page = peek.page([a_message({"text": "é" * 500}), a_message("\x1b[2J")], NOW + 5_000, 100)
    first, second = plain(page).splitlines()[1:]
    assert len(first) <= 100
    assert first.endswith("é…")
    assert "due 5.0 s ago" in first
    assert second.endswith("?[2J")
    assert len(plain(peek.page([a_message("x" * 99)], NOW, 10)).splitlines()[1]) > 20


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (200, ["id", "group", "state", "time", "attempts", "body"]),
        (70, ["id", "group", "state", "attempts", "body"]),
        (50, ["id", "group", "state", "body"]),
        (30, ["id", "body"]),
    ],
)
def test_peek_leaves_out_what_matters_least(width: int, titles: list[str]) -> None:
    shown_ = plain(peek.page([a_message("x" * 500)], NOW, width)).splitlines()
    assert shown_[0].split() == titles
    assert all(len(it) <= max(width, 34) for it in shown_)


@pytest.mark.parametrize(
    ("status", "time", "said"),
    [
        (Status.WAITING, NOW + 7_200_000, "due in 2 h"),
        (Status.LOST, NOW - 3_000, "lease ended 3.0 s ago"),
        (Status.PROCESSING, NOW + 1_000, "lease ends in 1.0 s"),
        (Status.DEAD, NOW, "died now"),
    ],
)
def test_peek_says_what_happens_when(status: Status, time: int, said: str) -> None:
    assert said in plain(peek.page([a_message(status=status, time=time)], NOW, 200))


def test_bodies_for_scripts_can_be_created_again() -> None:
    for body in ("text", {"a": [1, None]}, b"\xff\x00", None):
        told = as_json(a_message(body))
        line = json.dumps({key: told[key] for key in told if key in ("body", "body_base64")})
        assert lines(line) == [Message(body)]


def test_a_histogram_shows_what_is_outside_as_numbers() -> None:
    steps = [(NOW, 10), (NOW + 60_000, 0), (NOW + 120_000, 5)]
    shown_ = plain(histogram.page("mails", steps, before=1_234, after=3, width=60))
    rows = [it.split() for it in shown_.splitlines()[2:]]
    assert rows[0] == ["from", "number"]
    assert rows[1] == ["before", "1,234"]
    assert rows[2][2:] == ["10", rows[2][3]]
    assert len(rows[2][3]) in (2 * len(rows[4][3]), 2 * len(rows[4][3]) - 1)
    assert rows[3][2:] == ["0"]
    assert rows[5] == ["after", "3"]
    assert shown_.endswith("1,252 altogether\n")
    assert all(len(it) <= 60 for it in shown_.splitlines())


def test_a_long_gap_in_a_histogram_is_one_line() -> None:
    numbers = [1, 0, 0, 0, 2, *([0] * 400), 3, *([0] * 30)]
    steps = [(NOW + 60_000 * place, number) for place, number in enumerate(numbers)]
    shown_ = plain(histogram.page("mails", steps, before=0, after=0, width=60))
    rows = shown_.splitlines()[3:-2]
    assert [row.split()[2] for row in rows] == ["1", "0", "0", "0", "2", "0", "3", "0"]
    assert rows[5].endswith("none in the next 399")
    assert rows[7].endswith("none in the next 29")


def test_stats_says_what_needs_attention() -> None:
    numbers = dict.fromkeys(("new", "lost", "waiting", "processing", "dead"), 1)
    made = Stats(
        **numbers,
        created=9,
        deleted=4,
        given_up=0,
        remembered=0,
        backlog_age=75.0,
        next_due=NOW,
        consumers=0,
        drift=-90.0,
    )
    page = stats.page("topic mails", made, 64, NOW)
    assert "the oldest for 75 s" in plain(page)
    assert "No consumer is running, and messages are due." in page.foot
    assert "The clock of this machine is 90 s behind that of Redis." in page.foot
    assert [row.cells[0] for row in page.rows if row.marked] == ["dead"]


def test_how_far_away_a_time_is() -> None:
    assert (from_now(NOW + 1, NOW + 0.6), summed_up({})) == ("now", "nothing to do")
