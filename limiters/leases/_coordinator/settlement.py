"""True costs that became known after what they belong to was reported: debts and refunds. Pure.

A debt is spending that is in no ledger: it is added to the pool's, whatever else is known of its
sender. A refund is taken from the entry of a permit in the pool's ledger, for the fraction that has
stayed in the pool; if anything about that entry is uncertain, it is dropped.
"""

from __future__ import annotations

from limiters.leases._coordinator import permits
from limiters.leases._coordinator.state import BoundState, Holding, Limit, Record
from limiters.leases._format import MAX_PERMIT_MS, SLICES
from limiters.leases._ledger import believed, slice_end
from limiters.leases._messages import BoundRequest, Request


def settle(limit: Limit, record: Record, request: Request, uncertain: bool) -> None:
    """Follows what a request says of costs that are known by now."""
    may_refund = not uncertain and request.server == limit.server
    refunded: list[float] = []
    for bound, one, said in zip(limit.bounds, record.holdings, request.bounds, strict=True):
        refunded.append(0.0)
        if bound.terms.slots:
            continue
        _forget_older_permits(limit, record, bound, one)
        if may_refund and said.wave == bound.wave:
            refunded[-1] = _refund(limit, bound, one, said)
        period = bound.terms.period
        owed = [(slice_end(limit.now - max(0, age), period), cost) for age, cost in said.debts]
        since = limit.now - bound.terms.counts
        bound.ledger.merge(believed(owed, bound.most_in_force(limit.now), since))
    if any(refunded) and limit.is_short:  # what it did not cost does not delay its next turn
        main = permits.dominant(limit, record, [1.0] * len(refunded))
        costs = [cost if at == main else 0.0 for at, cost in enumerate(refunded)]
        record.turn -= permits.time_for(limit, record, costs)


def _refund(limit: Limit, bound: BoundState, one: Holding, said: BoundRequest) -> float:
    """Takes refunds back, up to what permits of this instance may have cost; of that, as much as
    is said counts from another time on. Returns how much does not count any more."""
    taken = 0.0
    for at, cost in said.refunds:
        refund = min(max(0.0, cost * bound.stayed), one.refundable_before + one.refundable)
        older = min(refund, one.refundable_before)
        one.refundable_before -= older
        one.refundable = max(0.0, one.refundable - (refund - older))
        taken += bound.ledger.subtract(at, refund)
    period = bound.terms.period
    moved = [
        (slice_end(limit.now - max(0, age), period), cost * bound.stayed)
        for age, cost in said.moved
    ]
    counting = believed(moved, taken, limit.now - bound.terms.counts)
    bound.ledger.merge(counting)
    for _, cost in counting:
        taken -= cost
    return max(0.0, taken)


def _forget_older_permits(limit: Limit, record: Record, bound: BoundState, one: Holding) -> None:
    """What permits cost is kept by epochs, each as long as the entry of a permit may count. So none
    of the last two can be refunded any more."""
    epoch = bound.terms.lasting + MAX_PERMIT_MS + max(1, bound.terms.period // SLICES)
    passed = limit.now // epoch - record.seen // epoch
    if passed:
        one.refundable_before = one.refundable if passed == 1 else 0.0
        one.refundable = 0.0
