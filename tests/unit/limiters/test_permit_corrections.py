"""An instance corrects permits whose calls cost more or less than was charged (Z1 to Z5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from limiters._budgets.permit import PermitBudget
from limiters._budgets.permit_corrections import Corrections, PermitCorrections
from limiters._budgets.spend import Spend
from limiters.leases._messages import BoundReply, BoundTerms

TERMS = BoundTerms.rate(100.0, 1_000)
AT_END = BoundTerms.rate(100.0, 1_000, running=2_000)
GRANT = BoundReply(permit_cost=10.0, permit_at=100_270, permit_stayed=0.5, permit_wave=3)
NOTHING = Corrections()


class Holder:
    """One who was granted a permit, and reports it."""

    def __init__(self, terms: BoundTerms = TERMS) -> None:
        self.terms = terms
        self.permit = PermitBudget(at_end=terms.running > 0)
        self.corrections = PermitCorrections()

    def begin(self, estimated: float, now: float, grant: BoundReply = GRANT) -> Spend:
        self.permit.open(1, estimated, until=now + 1)
        self.corrections.granted(grant)
        payment = self.permit.payment(estimated, now)
        payment.enter()
        return payment.spend

    def say(self, now: float) -> tuple[tuple[tuple[int, float], ...], Corrections]:
        """Return the parts of the next request about the permit and about corrections."""
        _, spent = self.permit.close(now)
        return spent, self.corrections.compose(self.permit.uses, now, self.terms)

    def answer(self, heard: int, *, same_server: bool = True) -> None:
        self.corrections.answered(heard, self.terms, same_server=same_server)


def test_z3_a_refund_names_the_stamp_of_the_first_answer_and_is_sent_once() -> None:
    one = Holder()
    call = one.begin(10.0, 0.0)
    assert one.say(0.125) == (((125, 10.0),), NOTHING)
    one.answer(heard=100_130)
    call.settle(4.0)
    call.ended(0.2)
    _, said = one.say(0.25)
    assert said == Corrections(refunds=((100_010, 6.0 / 0.5),), wave=3)
    one.answer(heard=100_260)
    assert one.say(0.3) == ((), NOTHING)


def test_z1_what_is_known_before_the_report_is_reported() -> None:
    one = Holder()
    call = one.begin(10.0, 0.0)
    call.settle(4.0)
    call.ended(0.1)
    assert one.say(0.125) == (((125, 4.0),), NOTHING)


@pytest.mark.parametrize("cost", [4.0, 25.0])
@pytest.mark.parametrize("ended", [0.1, 0.2])
def test_what_permits_paid_for_is_its_true_cost_whenever_that_became_known(
    cost: float, ended: float
) -> None:
    """Before the report or after it: `dispatcher leases` shows it, and needs follow from it."""
    one = Holder()
    call = one.begin(10.0, 0.0)
    before, after = [now for now in (0.125, 0.25, 0.375) if now < ended], [0.25, 0.375]
    for now in before:
        one.say(now)
        one.answer(heard=100_130)
    call.settle(cost)
    call.ended(ended)
    for now in after:
        one.say(now)
        one.answer(heard=100_260)
    paid = sum(one.permit.recent(0.375, 1.0))
    assert paid + one.corrections.recently(0.375, 1.0) == cost


def test_z2_an_excess_is_a_debt_of_the_age_of_the_call() -> None:
    one = Holder()
    early, late = one.begin(10.0, 0.0), one.begin(10.0, 0.0)
    late.settle(25.0)
    assert one.say(0.125) == (((125, 10.0),), Corrections(debts=((125, 15.0),)))
    one.answer(heard=100_130)
    late.settle(30.0)
    late.ended(0.2)
    assert one.say(0.25) == ((), Corrections(debts=((250, 5.0),)))
    assert not early.settle(-1.0) or early is not late


def test_z3_a_debt_is_sent_again_if_its_request_was_ended_and_the_refund_is_dropped() -> None:
    one = Holder()
    more, less = one.begin(10.0, 0.0), None
    one.say(0.125)
    one.answer(heard=100_130)
    less = one.begin(10.0, 0.2)
    more.settle(25.0)
    more.ended(0.21)
    _, said = one.say(0.25)
    assert said.debts == ((250, 15.0),)
    one.corrections.ended()
    assert less is not None
    less.settle(1.0)
    less.ended(0.3)
    _, said = one.say(0.375)
    assert said == Corrections(debts=((375, 15.0),)), (
        "and nothing of the permit whose report is lost"
    )
    one.answer(heard=100_400)
    assert one.say(0.5) == ((), NOTHING)


@pytest.mark.parametrize("reported", [True, False])
def test_z3_another_server_is_sent_no_refund(reported: bool) -> None:
    one = Holder()
    call = one.begin(10.0, 0.0)
    if not reported:  # it answers another request, and the permit is still open
        one.answer(heard=5, same_server=False)
    one.say(0.125)
    one.answer(heard=5, same_server=not reported)
    call.settle(4.0)
    call.ended(0.2)
    assert one.say(0.25) == ((), NOTHING)


def test_z3_of_an_earlier_wave_nothing_is_left() -> None:
    one = Holder()
    first = one.begin(10.0, 0.0)
    one.say(0.1)
    one.answer(heard=100_100)
    later = replace(GRANT, permit_at=100_470, permit_stayed=1.0, permit_wave=4)
    second = one.begin(10.0, 0.25, later)
    one.say(0.375)
    one.answer(heard=100_325)
    for call in (first, second):
        call.settle(5.0)
        call.ended(0.4)
    _, said = one.say(0.5)
    assert said == Corrections(refunds=((100_200, 5.0),), wave=4)


def test_z1_a_call_that_counts_from_its_end_moves_there() -> None:
    """While it runs it counts until the latest end that it may have."""
    one = Holder(AT_END)
    call = one.begin(10.0, 0.0)
    assert one.say(0.125) == (((-1, 10.0),), NOTHING)
    one.answer(heard=100_130)
    call.settle(4.0)
    assert one.say(0.25) == ((), NOTHING), "it still runs"
    one.answer(heard=100_260)
    call.ended(0.5)
    _, said = one.say(0.625)
    assert said == Corrections(refunds=((100_270, 10.0 / 0.5),), moved=((125, 4.0 / 0.5),), wave=3)


def test_z5_it_forgets_what_no_longer_counts_and_what_never_ends() -> None:
    for terms in (TERMS, AT_END):
        one = Holder(terms)
        call = one.begin(10.0, 0.0)
        one.say(0.125)
        one.answer(heard=100_130)
        one.say(4.0)
        assert not one.corrections._reported
        call.settle(1.0)
        call.ended(4.5)
        assert one.say(5.0) == ((), NOTHING)


def test_z5_how_much_can_be_given_back_is_known_before_it_is_sent() -> None:
    one = Holder()
    call = one.begin(10.0, 0.0)
    one.say(0.125)
    one.answer(heard=100_130)
    assert not one.corrections.refundable()
    call.settle(4.0)
    assert not one.corrections.refundable(), "it may still cost more"
    call.ended(0.2)
    assert one.corrections.refundable() == 6.0
    one.say(0.25)
    assert one.corrections.recently(0.25, 1.0) == -6.0
    assert not one.corrections.recently(1.25, 1.0)
