"""Fixtures of tests of metrics."""

from __future__ import annotations

import pytest

from tests.integration.metrics.shown import Shown


@pytest.fixture
def shown() -> Shown:
    return Shown()
