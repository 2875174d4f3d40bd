"""Log lines of a long-running command on stderr, as text or as JSON.

Whatever is passed to a logger, a line is written and nothing is raised; `logging` itself would
print a traceback instead. No line contains a password, or control characters for a terminal.
"""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime
from typing import Any

from dispatcher.cli._text.showable import showable

USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes that every record has."""

DEEPEST = 8
"""Maximum nesting of a line's facts; what is deeper is written as text."""


class AsText(logging.Formatter):
    """Formats a record as time (UTC), level, process, logger and message."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        when = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
        head = f"{when} {record.levelname} [{record.process}] {record.name}"
        traceback = _traceback_of(self, record)
        return f"{head}: {_message_of(record)}" + (f"\n{traceback}" if traceback else "")


class AsJson(logging.Formatter):
    """Formats a record and its facts as a JSON object; `at` is in epoch milliseconds."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": round(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": _message_of(record),
        }
        if traceback := _traceback_of(self, record):
            line["traceback"] = traceback
        facts = {name: value for name, value in vars(record).items() if name not in USUAL}
        return json.dumps(line | _plain(facts, DEEPEST) | line, allow_nan=False)


def _message_of(record: logging.LogRecord) -> str:
    try:
        return showable(record.getMessage())
    except Exception as error:  # a wrong log call in a handler is not a failure of the handler
        return showable(f"{_text(record.msg)} (its arguments do not fit: {_text(error)})")


def _traceback_of(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return showable(formatter.formatException(record.exc_info)) if record.exc_info else ""


def _plain(value: Any, deepest: int) -> Any:
    """Convert a value for JSON. Secrets are removed from each text by itself: in a finished line,
    quotes would be taken for a part of them."""
    if isinstance(value, dict) and deepest:
        return {showable(_text(name)): _plain(one, deepest - 1) for name, one in value.items()}
    if isinstance(value, (list, tuple)) and deepest:
        return [_plain(one, deepest - 1) for one in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and abs(value) <= MOST and math.isfinite(value):
        return value
    return showable(_text(value))


MOST = 1e308
"""Above it an integer may have more digits than Python prints."""


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


FORMATTERS = {"text": AsText, "json": AsJson}


def set_up(log_format: str, level: str = "INFO", *, without: str = "") -> None:
    """Log records of that level or above to stderr, `without` those of one happening."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[log_format]())
    handler.addFilter(lambda record: not without or getattr(record, "happening", "") != without)
    logging.basicConfig(level=level, handlers=[handler])
