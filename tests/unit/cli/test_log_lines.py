"""Log lines of commands that run for long: text with time and process, or JSON with all facts."""

from __future__ import annotations

import json
import logging
import math
import re
from typing import Any

import pytest

from dispatcher.cli._terminal.log_lines import AsJson, AsText


def record(message: str = "it failed", **facts: Any) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "dispatcher.worker", "levelname": "WARNING", "msg": message, "process": 4242}
    )
    made.created = 1_777_622_412.3456
    vars(made).update(facts)
    return made


def test_text_says_when_in_utc_and_which_process() -> None:
    line = "2026-05-01T08:00:12.345Z WARNING [4242] dispatcher.worker: it failed"
    assert AsText().format(record()) == line


def test_json_has_each_fact_as_a_field_and_milliseconds() -> None:
    told = json.loads(AsJson().format(record(happening="handler-failed", ids=["a", "b"], dead=2)))
    assert told == {
        "at": 1_777_622_412_346,
        "level": "WARNING",
        "logger": "dispatcher.worker",
        "process": 4242,
        "message": "it failed",
        "happening": "handler-failed",
        "ids": ["a", "b"],
        "dead": 2,
    }


@pytest.mark.parametrize("kind", [AsText, AsJson])
def test_a_traceback_is_one_field_and_no_secret_is_shown(kind: type[logging.Formatter]) -> None:
    try:
        raise ValueError("redis://:zq1@db \x1b[2J")
    except ValueError as error:
        made = record("at redis://:zq1@db\x1b", where="redis://:zq1@db")
        made.exc_info = (ValueError, error, error.__traceback__)
    line = kind().format(made)
    assert "zq1" not in line
    assert "\x1b" not in line
    if kind is AsJson:
        assert "\n" not in line
        assert re.match(r"Traceback.*\n", json.loads(line)["traceback"])


class Wordless:
    def __str__(self) -> str:
        raise RuntimeError("it has no words")

    __repr__ = __str__


def in_itself() -> dict[str, Any]:
    fact: dict[str, Any] = {}
    fact["itself"] = [fact]
    return fact


SLIPS: list[tuple[Any, tuple[Any, ...]]] = [
    ("%d items", ("three",)),
    ("x", ("y",)),
    ("%s and %s", ("one",)),
    ("%s", (Wordless(),)),
    (Wordless(), ()),
    ("%(name)s", ({},)),
]


@pytest.mark.parametrize("kind", [AsText, AsJson])
@pytest.mark.parametrize(("message", "arguments"), SLIPS)
def test_a_slip_in_a_call_of_a_logger_is_a_line_and_no_error(
    kind: type[logging.Formatter], message: Any, arguments: tuple[Any, ...]
) -> None:
    made = record()
    made.msg, made.args = message, arguments
    line = kind().format(made)
    assert "\n" not in line
    assert "do not fit" in line or "Wordless" in line


@pytest.mark.parametrize(
    "fact",
    [
        math.nan,
        math.inf,
        10**5_000,
        in_itself(),
        {("a", "tuple"): 1},
        {Wordless(): Wordless()},
        {"redis://u:zq1@db": "redis://u:zq1@db"},
        {1, 2},
        "\ud800 \x00\n",
        "at",
    ],
    ids=range(10),
)
def test_each_line_is_json_whatever_the_facts_are(fact: Any) -> None:
    line = AsJson().format(record(fact=fact, at=fact, level=fact))
    assert "\n" not in line
    assert "zq1" not in line
    told = json.loads(line, parse_constant=lambda word: pytest.fail(word))
    assert told["level"] == "WARNING"
    assert "fact" in told


def test_a_handler_that_logs_badly_is_not_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("of.a.user")
    handler = logging.StreamHandler()
    handler.setFormatter(AsText())
    logger.addHandler(handler)
    logger.propagate = False
    try:
        logger.warning("%d items", "three")
    finally:
        logger.removeHandler(handler)
    assert "%d items (its arguments do not fit:" in capsys.readouterr().err
