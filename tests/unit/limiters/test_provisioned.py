"""ProvisionedResource: what it keeps of those who ask it."""

from __future__ import annotations

import pytest

from limiters import ProvisionedResource
from limiters.testing import ManualClock


def test_c5_who_wants_nothing_any_more_is_in_nobodys_way() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    clock.advance(1)
    limiter.give_me(90, "dear")
    spent = limiter.grant(60, 60, "dear")
    spent.spend(60).started(clock.now())
    spent.close()
    assert limiter.grant(90, 90, "dear").amount == 0, "it waits, and the others with it"
    clock.advance(0.1)
    assert limiter.grant(5, 5, "cheap").amount == 0
    limiter.give_me(0, "dear")
    assert limiter.grant(5, 5, "cheap").amount == 5
    assert limiter.standing().demand == 0


@pytest.mark.parametrize("target", [-1, float("nan"), "much"])
def test_a_target_that_is_none_is_named(target: float) -> None:
    with pytest.raises(ValueError, match="target must be"):
        ProvisionedResource(100).give_me(target)
