"""Read the log lines of a test."""

from __future__ import annotations

from typing import Any

import pytest


def told_of(happening: str, caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The facts of the lines of a kind. Threads that are left from other tests log, too."""
    return [vars(it) for it in caplog.records if vars(it).get("happening") == happening]
