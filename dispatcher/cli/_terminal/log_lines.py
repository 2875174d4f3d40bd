"""What a command that runs for long logs to stderr: lines of text, or of JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from dispatcher.cli._text.showable import showable, showable_log

USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has."""


class AsText(logging.Formatter):
    """When (UTC), how bad, which process, which part, and what has happened."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        at = datetime.fromtimestamp(record.created, UTC)
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


class AsJson(logging.Formatter):
    """The same and the facts, each a field; `at` is in epoch milliseconds."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": round(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = record.exc_text or self.formatException(record.exc_info)
        facts = {name: value for name, value in vars(record).items() if name not in USUAL}
        return json.dumps(_shown(line | facts), default=lambda fact: showable(str(fact)))


def _shown(value: Any) -> Any:
    """Without what is secret, before a line is made of it: its quotes must not be touched."""
    if isinstance(value, dict):
        return {name: _shown(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_shown, value))
    return showable(value) if isinstance(value, str) else value


FORMATTERS = {"text": AsText, "json": AsJson}


def set_up(log_format: str, level: str = "INFO", *, without: str = "") -> None:
    """Logs what is of that level or above to stderr, `without` lines of one happening."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[log_format]())
    handler.addFilter(showable_log)
    handler.addFilter(lambda record: not without or getattr(record, "happening", "") != without)
    logging.basicConfig(level=level, handlers=[handler])
