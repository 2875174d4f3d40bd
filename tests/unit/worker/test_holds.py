"""The messages of a worker, as a machine of states; time is an argument."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dispatcher.worker._messages import HandlerRun, Held, Holds, MessageState
from tests.examples import examples
from tests.worker_leases import leases

LEASE, LONGEST = 3.0, 10.0


@pytest.fixture
def holds() -> Holds:
    return Holds(LEASE, LONGEST)


def test_t3_a_message_whose_lease_ran_out_does_not_begin(holds: Holds) -> None:
    [live] = holds.admit(leases(1), 0)
    [short] = holds.admit(leases(1, remaining=0.2), 0)
    [lost] = holds.admit(leases(1), 0)
    holds.lost([lost])
    run = holds.begin([live, short, lost], 1.0, margin=0.3)
    assert run is not None
    assert run.held == [live]
    assert holds.waiting == 0
    assert holds.begin([short, lost], 1.0, margin=0.3) is None


def test_t3_a_message_begins_once(holds: Holds) -> None:
    held = holds.admit(leases(2), 0)
    assert holds.begin(held, 0, 0) is not None
    assert holds.begin(held, 0, 0) is None


def test_leases_are_extended_at_a_third_of_their_time_until_they_are_settled(holds: Holds) -> None:
    held = holds.admit(leases(2), 0.0)
    assert holds.next_look() == 1.0
    assert holds.to_extend(0.99) == []
    run = holds.begin(held[:1], 0.5, 0)
    assert set(holds.to_extend(1.0)) == set(held)
    holds.extended(held, 1.0)
    assert holds.to_extend(1.99) == []
    assert run is not None
    holds.end(run)
    assert set(holds.to_extend(2.0)) == set(held), "its delete may take a while"
    holds.settled(held[:1])
    holds.extended(held, 2.0)
    assert holds.to_extend(3.0) == held[1:]


def test_without_an_answer_it_is_tried_again_soon(holds: Holds) -> None:
    held = holds.admit(leases(1), 0.0)
    assert holds.to_extend(1.0) == held
    holds.extended(held, 1.0, answered=False)
    assert holds.to_extend(1.3) == held


def test_what_hangs_is_found_once_and_not_extended_any_more(holds: Holds) -> None:
    held = holds.admit(leases(1), 0.0)
    run = holds.begin(held, 1.0, 0)
    assert run is not None
    assert holds.overrun(10.9) == []
    assert holds.overrun(11.0) == [run]
    assert holds.overrun(12.0) == []
    assert (holds.running, holds.overdue) == (0, 1)
    assert holds.to_extend(100.0) == []
    assert holds.end(run) == []
    assert (holds.running, holds.overdue, holds.settling) == (0, 0, 1)


def test_what_is_abandoned_waits_no_more(holds: Holds) -> None:
    held = holds.admit(leases(2), 0.0)
    run = holds.begin(held, 0.0, 0)
    assert run is not None
    assert holds.abandon(held) == []
    assert holds.end(run, refused=held[:1]) == held[:1], "it is not raised again"
    assert holds.waiting == 0
    assert set(holds.to_extend(100.0)) == set(held), "one is to be given back, one to be deleted"


def test_a_call_that_is_abandoned_before_it_began_is_stuck_until_one_begins(holds: Holds) -> None:
    held = holds.admit(leases(2), 0.0)
    assert set(holds.abandon(held)) == set(held)
    assert holds.stuck
    assert set(holds.to_extend(100.0)) == set(held), "until they are given back"
    holds.settled(held)
    assert holds.begin(held, 0.0, 0) is None
    assert (holds.stuck, holds.waiting) == (False, 0)


def test_a_worker_is_not_stuck_any_more_when_the_call_ends_that_kept_others_from_beginning(
    holds: Holds,
) -> None:
    run = holds.begin(holds.admit(leases(1), 0), 0, 0)
    assert run is not None
    holds.abandon(holds.admit(leases(1), 0))
    assert holds.stuck
    holds.end(run)
    assert not holds.stuck


def test_closing_gives_back_what_waits_and_lets_nothing_begin(holds: Holds) -> None:
    held = holds.admit(leases(3), 0.0)
    run = holds.begin(held[:1], 0.0, 0)
    assert run is not None
    assert set(holds.close()) == set(held[1:])
    assert holds.begin(held[1:], 0.0, 0) is None
    assert holds.admit(leases(1), 0.0) == []
    assert holds.end(run, refused=held[:1]) == held[:1], "it may not wait any more"


def test_what_has_not_ended_in_time_is_nothing_of_ours(holds: Holds) -> None:
    held = holds.admit(leases(1), 0.0)
    run = holds.begin(held, 0.0, 0)
    assert run is not None
    holds.close()
    assert holds.await_ended(0.0) == held
    assert holds.end(run) is None


def test_what_is_settled_is_kept_nowhere(holds: Holds) -> None:
    held = holds.admit(leases(3), 0.0)
    run = holds.begin(held, 0.0, 0)
    assert run is not None
    holds.end(run)
    holds.settled(held)
    assert not any(lot for _, _, lot in holds._lots)


class Machine(RuleBasedStateMachine):
    """Whatever happens, the counts are those of the states."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = Holds(LEASE, LONGEST)
        self.all: list[Held] = []
        self.runs: list[HandlerRun] = []
        self.now = 0.0

    def some(self, data: st.DataObject, state: MessageState) -> list[Held]:
        there = [one for one in self.all if one.state is state]
        return data.draw(st.lists(st.sampled_from(there), unique=True)) if there else []

    @rule(count=st.integers(1, 5), remaining=st.sampled_from([0.0, 60.0]))
    def admit(self, count: int, remaining: float) -> None:
        self.all += self.holds.admit(leases(count, remaining=remaining), self.now)

    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        held = self.some(data, MessageState.WAITING)
        run = self.holds.begin(held, self.now, 0.1)
        if run is not None:
            assert all(one.lease.remaining > 0 for one in run.held)
            self.runs.append(run)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.runs:
            run = data.draw(st.sampled_from(self.runs))
            self.runs.remove(run)
            refused = data.draw(st.lists(st.sampled_from(run.held), unique=True))
            self.holds.end(run, refused)

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        self.holds.settled(self.some(data, MessageState.SETTLING))

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.holds.leave(self.some(data, MessageState.WAITING))

    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        state = data.draw(
            st.sampled_from([MessageState.WAITING, MessageState.RUNNING, MessageState.OVERDUE])
        )
        held = self.some(data, state)
        assert self.holds.abandon(held) == (held if state is MessageState.WAITING else [])

    @rule(step=st.sampled_from([0.5, 1.0, 11.0]))
    def time_passes(self, step: float) -> None:
        self.now += step
        self.holds.overrun(self.now)
        held = self.holds.to_extend(self.now)
        assert not {one.state for one in held} & {MessageState.OVERDUE, MessageState.GONE}
        self.holds.extended(held, self.now)

    @rule()
    def close(self) -> None:
        self.holds.close()

    @invariant()
    def counts_hold(self) -> None:
        states = [one.state for one in self.all]
        assert self.holds.waiting == states.count(MessageState.WAITING)
        assert not any(one.abandoned for one in self.all if one.state is MessageState.WAITING)
        assert self.holds.settling == states.count(MessageState.SETTLING)
        assert self.holds.running + self.holds.overdue == len(self.runs)
        if self.holds.closed:
            assert self.holds.waiting == 0


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(50), stateful_step_count=30, deadline=None)
