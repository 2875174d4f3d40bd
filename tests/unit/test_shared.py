"""SharedResource by hand: what happens between its thread, a grant and what it pays for."""

from __future__ import annotations

import pytest

from dispatcher import Watcher
from tests.crank import Crank, batchable, ends, ignore
from tests.driven import Driven


@pytest.mark.parametrize(("shared", "factor"), [(100, 1_000), (100, 100), (1_050, 1_000)])
def test_c3_a_factor_larger_than_what_is_held_does_not_hold_up_the_batches(
    shared: float, factor: float
) -> None:
    driven = Driven(shared, factor)
    crank = Crank(limiter=driven.limiter, clock=driven.clock)
    crank.enqueue(*batchable(Watcher(ignore), *range(500), cost=10))

    end = ends(crank)

    def turn() -> None:
        end()
        driven.turn()

    crank.run(3.0, at_turn=turn)
    spent = sum(o.cost for at, batch in crank.raised for o in batch if at >= 101)
    assert spent >= 0.85 * shared * 2
