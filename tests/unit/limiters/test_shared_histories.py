"""Several SharedResources over random histories, by hand: law C1 whatever is held up, where."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from limiters._budgets.spend import Spend
from limiters._sharing.grant import SharedGrant
from limiters.leases._messages import Reply, Request
from limiters.testing import ManualClock
from limiters.verifier import verify
from tests.driven import Driven, Scripted
from tests.examples import examples

RESERVED = 20.0
SHARED = 1_050.0


class Crowd:
    """Three who share a limit; grants stay open, spends begin late, replies are lost."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = ManualClock(100.0)
        self.manager = Scripted(self.clock)
        self.manager.change = self.lose
        self.crowd = [
            Driven(SHARED, 100, manager=self.manager, clock=self.clock, reserved=RESERVED)
            for _ in range(3)
        ]
        self.grants: list[tuple[str, SharedGrant, float]] = []
        self.spends: list[tuple[str, Spend, float]] = []
        self.log: list[tuple[float, str, float]] = []

    def lose(self, request: Request, reply: Reply) -> Reply:
        if self.random.random() < 0.15:
            raise OSError("lost on the way back")
        return reply

    def step(self) -> None:
        random = self.random
        self.clock.advance(random.choice([0.0, 0.001, 0.01, 0.05]))
        if random.random() < 0.005:
            self.clock.advance(random.choice([1.0, 2.5, 4.0]))
        one = random.choice(self.crowd)
        name = one.limiter.instance
        one.turn()
        what = random.randrange(6)
        if what == 0:
            one.limiter.give_me(random.choice([0, 400, 3_000, 3_000]))
        elif what in (1, 2, 3):
            cost = random.choice([100, 250, 900])
            grant = one.limiter.grant(cost, cost, None)
            self.grants.append((name, grant, min(cost, grant.amount)))
        elif what == 4 and self.grants:
            name, grant, amount = self.grants.pop(random.randrange(len(self.grants)))
            if amount and random.random() < 0.9:
                self.spends.append((name, grant.spend(amount), amount))
            grant.close()
        elif self.spends:
            name, spend, amount = self.spends.pop(random.randrange(len(self.spends)))
            if spend.started(self.clock.now()):
                self.log.append((self.clock.now(), name, amount))


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
def test_c1_c2_no_window_is_over_whatever_is_held_up(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(400):
        crowd.step()
    assert verify(crowd.log, SHARED + 3 * RESERVED).holds
