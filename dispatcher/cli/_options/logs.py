"""How a long-running command logs."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.declaring import option

FORMATS = ("text", "json")

WATCHED = "how it is watched"


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """The format of log lines."""

    log_format: str = option(
        "json: a line of JSON for each log line, with its facts",
        "",
        "text",
        choices=FORMATS,
        group=WATCHED,
    )
