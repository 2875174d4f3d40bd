"""C2: an instance stops while batches may still start; no window is over, and the others get what
it does not need for these."""

from __future__ import annotations

import pytest

from limiters.leases._format import UNITS
from tests.simulation.stage import Stage


@pytest.mark.parametrize("pledged", [0.0, 5.0, 20.0])
@pytest.mark.parametrize("capacity", [100.0, 60.0, 110.0])
def test_c2_what_may_start_after_the_end_is_covered_and_no_more(
    pledged: float, capacity: float
) -> None:
    h = Stage(lease=5)
    a = h.server(vouches=True)
    x, y = h.player(0), h.player()
    x.share.want(1000, 0, 0)
    x.share.answered(a.sync(x.share.compose(0), 0), 0, 0)
    x.backlog = 100 - pledged
    x.spend(0.15)
    x.share.ledger.hold(pledged)
    batch = x.share.ledger.charge(pledged, 0.2, x.share.tenure)
    a.set_terms(0.25, capacity=capacity)
    x.share.look_again()
    if capacity > 100:  # it gets that capacity; not a lower one
        x.backlog = 0
        h.go(x, a, 0.26)
    a.sync(x.share.leave(0.3), 0.3)
    kept = x.share.units / UNITS
    assert kept == pytest.approx(pledged / x.share.capacity)
    h.run(0.35, 0.9, {y: a})
    assert batch.started(0.9)
    h.log.append((0.9, x.name, pledged))
    h.run(0.95, 4, {y: a})
    assert y.share.units == pytest.approx((1 - kept) * UNITS)
    assert max(used for _, used in h.windows()) * 100 <= max(100, capacity) + 1e-6
