"""Log lines of commands that run for long: text with time and process, or JSON with all facts."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from dispatcher.cli._terminal.log_lines import AsJson, AsText
from dispatcher.cli._text.showable import showable_log


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
    assert showable_log(made)
    line = kind().format(made)
    assert "zq1" not in line
    assert "\x1b" not in line
    if kind is AsJson:
        assert "\n" not in line
        assert re.match(r"Traceback.*\n", json.loads(line)["traceback"])
