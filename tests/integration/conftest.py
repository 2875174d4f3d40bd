"""A Batcher on its real threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dispatcher import (
    Batcher,
)


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    made = Batcher(flush_interval=0.01)
    made.start()
    yield made
    made.stop(drain=False)
