"""What tests of metrics look at."""

from __future__ import annotations

import pytest

from tests.integration.metrics.shown import Shown


@pytest.fixture
def shown() -> Shown:
    return Shown()
