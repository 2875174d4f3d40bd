"""Mistakes about settled costs, on purpose: each has to be found."""

from __future__ import annotations

from typing import Any

import pytest

from limiters import _bound_share
from limiters._budgets.debts import Debts
from limiters._budgets.permit_corrections import PermitCorrections
from limiters._budgets.spend import BudgetEntry
from limiters._budgets.window import WindowLedger
from limiters._instance_share import InstanceShare
from limiters.leases._coordinator import Coordinator, settlement
from limiters.leases._coordinator.state import Limit, Record
from limiters.leases._messages import Reply, Request, altered


def refunded_from_what_is_left(patch: pytest.MonkeyPatch) -> None:
    """The part of a refund that was handed over is granted once more, from other entries."""
    correct = WindowLedger._correct

    def mutant(self: WindowLedger, entry: BudgetEntry, counts: float, now: float) -> None:
        left = (entry.noted - counts) * (1 - self._stayed_of(entry))
        correct(self, entry, counts, now)
        for slice_ in sorted(self._started.costs, reverse=True):
            taken = min(max(0.0, left), self._started.costs[slice_])
            self._started.costs[slice_] -= taken
            left -= taken

    patch.setattr(WindowLedger, "_correct", mutant)


def refunds_are_sent_twice(patch: pytest.MonkeyPatch) -> None:
    """A refund is sent again with the next request."""
    compose = PermitCorrections.compose
    sent: dict[int, Any] = {}

    def mutant(self: PermitCorrections, *what: Any) -> Any:
        said = compose(self, *what)
        if not said.refunds and id(self) in sent:
            said = said._replace(refunds=sent[id(self)].refunds, wave=sent[id(self)].wave)
        if said.refunds:
            sent[id(self)] = said
        return said

    patch.setattr(PermitCorrections, "compose", mutant)


def counts_again_when_sent_again(patch: pytest.MonkeyPatch) -> None:
    """A settlement counts each time its request arrives."""
    answer = Coordinator._answer

    def mutant(
        self: Coordinator,
        limit: Limit,
        request: Request,
        record: Record,
        elapsed: int,
        **known: bool,
    ) -> Reply:
        if known["again"]:
            settlement.settle(limit, record, request, False)
        return answer(self, limit, request, record, elapsed, **known)

    patch.setattr(Coordinator, "_answer", mutant)


def debts_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """The coordinator forgets debts."""
    settle = settlement.settle

    def mutant(limit: Limit, record: Record, request: Request, uncertain: bool) -> None:
        settle(limit, record, altered(request, debts=()), uncertain)

    patch.setattr(settlement, "settle", mutant)


def debts_of_others_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """An excess of entries that were handed over is not sent."""
    correct = _bound_share.RateShare.correct

    def mutant(self: _bound_share.RateShare, now: float) -> Any:
        self.ledger.debts.elsewhere = {}
        return correct(self, now)

    patch.setattr(_bound_share.RateShare, "correct", mutant)


def what_nobody_estimated_stays_here(patch: pytest.MonkeyPatch) -> None:
    """The cost of a call that was estimated to cost nothing counts only where it ran."""
    patch.setattr(Debts, "kept", lambda self, entry, cost, room: cost)


def debts_end_with_the_lease(patch: pytest.MonkeyPatch) -> None:
    """Once a lease has ended, what calls cost beyond their estimates is forgotten."""
    lapse, correct = InstanceShare._lapse, WindowLedger._correct
    excess: dict[int, list[tuple[int, float]]] = {}

    def noted(self: WindowLedger, entry: BudgetEntry, counts: float, now: float) -> None:
        before = dict(self._started.costs)
        correct(self, entry, counts, now)
        more = [(at, cost - before.get(at, 0.0)) for at, cost in self._started.costs.items()]
        excess.setdefault(id(self), []).extend(one for one in more if one[1] > 0)

    def mutant(self: InstanceShare, now: float) -> None:
        if now >= self.until:
            for bound in self.bounds:
                for at, cost in excess.pop(id(bound.ledger), []):
                    assert isinstance(bound.ledger, WindowLedger)
                    if at in bound.ledger._started.costs:
                        bound.ledger._started.costs[at] -= cost
        lapse(self, now)

    patch.setattr(WindowLedger, "_correct", noted)
    patch.setattr(InstanceShare, "_lapse", mutant)


def stamped_by_the_last_answer(patch: pytest.MonkeyPatch) -> None:
    """The time of an answer that is repeated is taken for that of the report."""
    answered = InstanceShare.answered

    def mutant(self: InstanceShare, reply: Reply, sent_at: float, now: float) -> Any:
        return answered(self, altered(reply, heard=reply.now), sent_at, now)

    patch.setattr(InstanceShare, "answered", mutant)


def running_calls_go_along(patch: pytest.MonkeyPatch) -> None:
    """Of what running calls cost, a part goes along with what is handed over."""
    patch.setattr(_bound_share, "releasable", lambda ledger, units, held, worth, now: units)


def running_calls_count_as_settled(patch: pytest.MonkeyPatch) -> None:
    """The cost of a streaming answer so far is taken for its whole cost."""

    def mutant(entry: BudgetEntry) -> float:
        return entry.estimated if entry.actual is None else entry.actual

    patch.setattr(BudgetEntry, "counts", property(mutant))
