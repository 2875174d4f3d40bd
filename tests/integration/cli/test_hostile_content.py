"""Nothing that is stored, or handed in, does something to the terminal of who looks at it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from redis import Redis

from dispatcher.timeline import Message, Timeline
from limiters import RedisLeaseManager
from tests.commands import COMMAND, Run, asks, hold, make
from tests.terminals import Terminal

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\x7f"
"""Sets a title, clears the screen, turns what follows around, goes back to the line's start."""

NAME = f"a{EVIL}b"


@pytest.fixture
def stored(url: str) -> Iterator[str]:
    """A topic and a limit with it in each of their texts."""
    timeline = Timeline(url, NAME, buckets=1)
    producer, consumer = timeline.producer(NAME), timeline.consumer(NAME)
    producer.create([Message(NAME, id=f"{NAME}{n}") for n in range(4)])
    producer.create([Message({NAME: NAME}, id="json"), Message(NAME.encode(), id="bytes")])
    leases = consumer.lease(2, 60)
    consumer.bury(leases[:1], NAME)
    with Redis.from_url(url) as client:
        messages, waiting = timeline._topic.layout.some([0], "messages", "waiting")
        client.hset(messages, NAME + "raw", b"\x03" + EVIL.encode()[:3] + b"z" + EVIL.encode())
        client.zadd(waiting, {NAME + "raw": 5, EVIL.encode() + b"\xff": 6})
    consumer.lease(1, 0.001)
    timeline.close()
    with closing(RedisLeaseManager(url, name=NAME, timeout=10)) as manager:
        make(manager, 1_000)
        hold(manager, asks(NAME[:8], 10, label=NAME))
        yield url


COMMANDS: list[list[str]] = [
    ["timeline", "stats", NAME],
    ["timeline", "stats", NAME, "--json"],
    ["timeline", "peek", NAME],
    ["timeline", "peek", NAME, "--json"],
    ["timeline", "peek", NAME, "--id", NAME],
    ["timeline", "peek", "none" + NAME],
    ["timeline", "dead", NAME],
    ["timeline", "histogram", NAME, "--from=-1h"],
    ["timeline", "create", NAME, "--group", NAME, "--id", f"{NAME}0", NAME],
    ["timeline", "create", NAME, "--group", NAME, "--body-json", NAME],
    ["timeline", "delete", NAME, "--all", "--dry-run"],
    ["timeline", "requeue", NAME, "--dry-run"],
    ["timeline", "delete", NAME, "--all"],
    ["limit", "show", NAME],
    ["limit", "show", NAME, "--json"],
    ["limit", "show", "none" + NAME],
    ["leases", NAME],
    ["leases", NAME, "--evict", NAME, "--yes"],
    ["top", NAME, "--topic", NAME, "--once"],
    ["top", "--once"],
    ["exporter", "--once"],
    ["exporter", "--once", "--topics", NAME, "--limits", NAME],
    ["worker", "json:dumps", "--topic", NAME, "--check"],
    ["worker", NAME, "--topic", NAME, "--check"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(NAME, "X"))
def test_no_stored_text_does_something_to_a_terminal(
    run: Run, stored: str, words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    said = run(*words)
    for text in (said.out, said.err):
        strange = {letter for letter in text if not (letter.isprintable() or letter == "\n")}
        assert not strange, text
    assert "b" in said.out + said.err


@pytest.mark.parametrize(
    "words",
    [
        ["timeline", "peek", NAME],
        ["leases", NAME],
        ["top", NAME, "--topic", NAME, "--once"],
        ["exporter", "--once"],
        ["limit", "show", NAME],
    ],
    ids=lambda words: " ".join(words[:2]).replace(NAME, "X"),
)
def test_nor_where_there_are_colours(stored: str, words: list[str]) -> None:
    with Terminal([*COMMAND, *words, "--redis", stored], COLUMNS="200") as terminal:
        said = terminal.read_until("owned")
        terminal.end()
    for bad in ("\x1b]0;", "\x07", "\x1b[2J", "\x9b", "\u202e", "\x7f"):
        assert bad not in said


NESTED = "[" * 100_000
BAD_LINES = [
    NESTED,
    '{"body": ' + NESTED + "]" * 100_000 + "}",
    *('{"body": 1, "at": ' + "[" * depth + "]" * depth + "}" for depth in (100, 900, 950, 990)),
    *("[" * depth + "]" * depth for depth in (900, 950, 990)),
    '{"body": 1, "at": "+' + "9" * 400 + '"}',
    '{"body": 1, "at": "-' + "9" * 400 + 'd"}',
    '{"body": 1, "at": "+999999999999d"}',
    '{"body": 1, "at": ' + "9" * 5_000 + "}",
    '{"body": 1, "at": 1e400}',
    '{"body": 1, "delay": "' + "9" * 400 + '"}',
    '{"body": 1, "delay": ' + "9" * 4_000 + "}",
    '{"body": 1, "delay": NaN}',
    '{"body": NaN}',
    '{"body": 1, "id": "' + "x" * 300 + '"}',
    '{"body_base64": "\xff"}',
    '{"' + EVIL.replace("\x1b", "\\u001b").replace("\x07", "") + '": 1}',
    "\udcff\udcfe",
    "null",
]


def test_a_bad_line_is_reported_with_its_number_and_disturbs_no_other(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = Timeline(url, "mails", buckets=1)
    assert timeline.buckets == 1
    for number, line in enumerate(BAD_LINES):
        lines = ['{"body": 1}', line, "", '{"body": 2}']
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
        said = run("timeline", "create", "mails", "--group", "us")
        assert said.code == 5
        assert said.out == "2 created, 1 invalid\n", (line[:50], said)
        assert "dispatcher: line 2: " in said.err
        assert "not all could be created: 1 invalid" in said.err
        assert len(said.err) < 1_000
        assert timeline.stats().created == 2 * (number + 1)
    timeline.close()


def test_bytes_that_are_no_text_are_one_bad_line(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO(b'{"body": 1}\n\xff\xfe{}\n{"body": 2}\n')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(written, "utf-8"))
    said = run("timeline", "create", "mails", "--group", "us", "--create-topic", "--json")
    assert json.loads(said.out) == {"created": 2, "invalid": 1}
    assert "line 2: not UTF-8" in said.err


@pytest.mark.parametrize("option", ["--at=+", "--delay=", "--at=-"])
def test_a_time_that_is_too_far_away_is_refused(run: Run, url: str, option: str) -> None:
    said = run("timeline", "create", "mails", "--group", "us", f"{option}{'9' * 400}", "hello")
    assert said.code == 2
    assert "at most" in said.err
