"""Random histories of requests, operators and failures, played to the reference in Python and to
the scripts inside Redis: both have to answer and store the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from limiters._instance_share import InstanceShare
from limiters.leases._format import FORMAT, UNITS
from limiters.leases._layout import BoundLayout, layout_of
from limiters.leases._ledger import slice_end
from limiters.leases._messages import (
    BoundReply,
    BoundRequest,
    BoundTerms,
    Kind,
    Reply,
    Request,
    Terms,
    altered,
)
from limiters.leases._terms_change import BoundChange, LimitChange
from tests.bounds import BoundedInstance
from tests.twins.compared import differences, plain
from tests.twins.stores import NAMES, InPython, InRedis, Scripts

FLEET = Terms(
    (BoundTerms.rate(50.0, 1_000), BoundTerms.in_flight(60, 500), BoundTerms.rate(900.0, 2_000)),
    1.0,
    400,
    layout_of([BoundLayout("a"), BoundLayout("b", slots=True), BoundLayout("c")]),
)
"""The terms of a limit of many."""


class DifferenceError(AssertionError):
    """The two implementations gave different answers, or stored different data."""


class History:
    """One random history, played to both implementations: a difference raises DifferenceError.

    The instances follow the answers of the reference. Each answer of the scripts is compared with
    them when the stored data is compared as well: after so many calls, and at the end.
    """

    def __init__(self, scripts: Scripts, seed: int, compare_every: int = 10) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        registered = self.registered = random.random() < 0.8
        self.python, self.redis = InPython(registered), InRedis(scripts, registered)
        self._expected: list[tuple[Any, str, tuple[Any, ...]]] = []
        """The answers of the reference, with their calls."""
        self.compare_every = compare_every
        self.calls = 0
        if registered and random.random() < 0.7:
            self._both("mark", "server1")
        self.clock = 1_700_000_000_000 + random.randrange(10**9)
        self.now = 1000.0
        self.server = "server1"
        self.tokens = 0
        period = random.choice((10, 500, 1_000, 1_000, 2_345, 60_000))
        lease = random.choice((400, 2_000, 2_000, 5_000))
        capacity = random.choice((1e-3, 7.3, 100.0, 1_000.0, 1_000.0, 123_456.7, 1e12))
        self.terms = Terms.scalar(capacity, capacity / random.choice((1, 3.7, 20)), period, lease)
        self.shares: dict[tuple[str, str], InstanceShare] = {}
        self.pieces: dict[str, float] = {}
        self.sent: list[tuple[str, Request]] = []
        self.hostile = random.choice((0.0, 0.0, 0.05, 0.3))
        self.calm = random.choice((0.9, 0.98, 0.995, 1.0))
        self.nonces = [""]
        self.longest = 0
        self.kinds: dict[str, int] = {}
        self.restore: list[Callable[[], None]] = []
        self.copied_from = self.server
        for at in range(random.choice((1, 2, 3, 3, 5, 5, 8, 8, 40, 120))):
            self._join(f"instance{at}")

    def _join(self, instance: str) -> None:
        random = self.random
        name = NAMES[0] if random.random() < 0.8 else NAMES[1]
        terms = self.terms
        if random.random() < 0.03:
            terms = altered(terms, lease=terms.lease + 100)
        self.shares[name, instance] = InstanceShare(
            instance,
            terms,
            interval=random.choice((0.1, 0.5)),
            weight=self._weight(),
            label=random.choice(("", "host/1", "höst/2\n5\t2\t0\t\tsmall")),
        )
        share = random.choice((1e-4, 0.01, 0.03, 0.2, 0.5, 1.0))
        self.pieces[instance] = self.terms.capacity * share

    def _weight(self) -> int:
        return self.random.choice((1000, 1000, 1, 1_000_000, 777))

    def _backlog(self) -> int:
        """Return how many pieces wait."""
        return self.random.choice((0, 1, 5, 1000))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._pass_time()
            if self.random.random() < self.calm:
                self._one_calls()
            else:
                self._something_happens()
        for name in NAMES:
            self._compare(name)

    def crowd(self, count: int, rounds: int) -> None:
        """Let so many instances ask for a permit that the header does not store them all."""
        random, terms = self.random, Terms.scalar(50.0, 1.0, 1_000, 2_000)
        born = [0] * count
        for name in NAMES:
            self._both("lose", name)
        for round_ in range(1, rounds + 1):
            for at in range(count):
                self.clock += random.choice((0, 3, 9))
                request = Request.scalar(
                    f"instance{at:03}",
                    round_,
                    terms,
                    born=born[at],
                    nonce=random.choice(self.nonces[-3:]),
                    need=random.choice((0.1, 3.0, 70.0)),
                    ask=random.choice((0.0, 1.0, 1.0, 1.0, 5.0)),
                    gathers=random.random() < 0.2,
                    waited=random.choice((0, 0, 100)),
                    weight=random.choice((1000, 1000, 1, 5000)),
                    valid=200,
                )
                born[at] = self._sync(NAMES[0], request).born
            if round_ == 1:
                self.clock += 1 + self.random.randrange(7_000)
        self._compare(NAMES[0])

    def fleet(self, count: int, rounds: int) -> None:
        """So many that a request visits only some of them: they ask in any order, and some fall
        silent until what they held comes back."""
        random, terms = self.random, FLEET
        known: dict[int, Reply] = {}
        for name in NAMES:
            self._both("lose", name)
        for round_ in range(1, rounds + 1):
            silent = random.choice((0.0, 0.1, 0.9))
            for at in random.sample(range(count), count):
                self.clock += random.choice((0, 1, 1, 9))
                if random.random() < silent:
                    continue
                last = known.get(at)
                request = Request(
                    f"instance{at:03}",
                    round_,
                    terms,
                    tuple(self._of_fleet(bound, last, b) for b, bound in enumerate(terms.bounds)),
                    born=last.born if last else 0,
                    server=self.server,
                    nonce=random.choice(self.nonces[-3:]),
                    left=terms.lease if last else 0,
                    weight=random.choice((1000, 1000, 1, 5000)),
                    valid=200,
                    interval=500,
                )
                reply = self._sync(NAMES[0], request)
                known.pop(at, None)
                if reply.kind is Kind.ANSWER:
                    known[at] = reply
            self.clock += random.choice((0, 100, 900))
        self._compare(NAMES[0])

    def _of_fleet(self, bound: BoundTerms, last: Reply | None, at: int) -> BoundRequest:
        """Return the request of one instance for a bound: it keeps what it may, and its needs
        change."""
        random, known = self.random, last.bounds[at] if last else BoundReply()
        need = bound.capacity * random.choice((0.0, 1e-3, 0.01, 0.1))
        return BoundRequest(
            units=min(known.units, known.keep),
            released=max(0, known.units - known.keep),
            need=math.ceil(need) if bound.slots else need,
            ask=0.0 if bound.slots else random.choice((0.0, 0.0, 1.0)),
            piece=random.choice((0.0, 1.0, 3.0, 20.0) if bound.slots else (0.0, 0.1, 1.0)),
        )

    def _pass_time(self) -> None:
        random = self.random
        passed = random.choice((0, 1, 7, 50, 50, 130))
        if random.random() < 0.02:
            passed = random.choice((900, 3_000, 9_000))
        self.now += passed / 1000
        self.clock += passed
        if random.random() < 0.01:
            self.clock += random.choice((15, 40, 300, 60_000, 3_600_000, -5, -200, -60_000))

    def _one_calls(self) -> None:
        random = self.random
        (name, instance), share = random.choice(list(self.shares.items()))
        if random.random() < 0.1 and self.sent:
            self._sync(*random.choice(self.sent[-30:]))  # a late copy of a request
            return
        self._work(share)
        leaves = share.pending is None and share.reply is not None and random.random() < 0.02
        request = share.leave(self.now, (1.0,)) if leaves else share.compose(self.now, (2.0, 0.5))
        sent_at = self.now
        self.sent.append((name, request))
        if random.random() < self.hostile:
            request = self._changed(request)
            self.sent.append((name, request))
        if random.random() < 0.05:
            share.unanswered(self.now)  # the request is lost on its way
            return
        reply = self._sync(name, request)
        if random.random() < (0.3 if reply.given else 0.07):
            share.unanswered(self.now)  # the reply is lost
            if reply.given and random.random() < 0.5:
                self._both("lose_grants", name)
                if random.random() < 0.3:
                    self._sync(name, altered(request, seq=request.seq + 1, born=1))
            return
        delay = random.choice((0, 1, 20))
        self.now += delay / 1000
        self.clock += delay
        if share.pending is None or reply.seq != share.pending.seq:
            self._replace(name, instance)
            return
        news = share.answered(reply, sent_at, self.now)
        if news.disowned or share.left:
            self._replace(name, instance)

    def _replace(self, name: str, instance: str) -> None:
        del self.shares[name, instance]
        self._join(f"{instance}x")

    def _work(self, share: InstanceShare) -> None:
        random = self.random
        piece = self.pieces[share.instance]
        share.settle(self.now)
        for _ in range(random.choice((0, 1, 3))):
            for source in (share.ledger, share.permit):
                if source.available(self.now, 0.0) >= piece:
                    source.hold(piece)
                    if source is share.ledger:
                        spend = share.ledger.charge(piece, self.now, share.tenure)
                    else:
                        spend = share.permit.charge(piece, self.now)
                    if random.random() < 0.8:
                        spend.started(self.now)
                    break
        waiting = piece * self._backlog()
        gathers = waiting and piece > share.burst(self.now) and random.random() < 0.7
        share.want(waiting, piece if gathers else 0.0, self.now)
        share.short(waiting > 0 and random.random() < 0.7, self.now)

    def _changed(self, request: Request) -> Request:
        """Return a request that no instance would make."""
        random = self.random
        entries = tuple(
            (random.choice((0, 5, 400, 10**6)), random.choice((0.0, 1e-9, 3.3, 1e9)))
            for _ in range(random.choice((0, 1, 3, 120, 300)))
        )
        stamped = tuple((self.clock - age, cost) for age, cost in entries)
        cost = self.terms.capacity * 10 ** random.uniform(-6, 3)
        units = random.choice((0, 1, UNITS // 3, UNITS, random.randrange(UNITS)))
        changes: list[dict[str, Any]] = [
            {"seq": max(0, request.seq + random.choice((-1, 1, 1, 5)))},
            {"born": random.choice((0, 1, request.born + 1))},
            {"server": random.choice(("", "server1", "server9", self.server))},
            {"server": "server9", "age": 0, "nonce": self.nonces[-1] or request.nonce},
            {"age": random.choice((0, 1, 10**5))},
            {"nonce": random.choice(self.nonces)},
            {"ended": not request.ended},
            {"confirmed": random.choice((-1, 0, self.clock, self.clock + 10**6))},
            {"tries": random.choice((0, 1, 2, 9))},
            {"units": units, "left": random.choice((0, 1, 1000))},
            {"released": units, "history": entries, "stamped": stamped},
            {"need": cost, "by_permit": cost * random.random() * 2},
            {"ask": cost, "gathers": random.random() < 0.5, "waited": random.randrange(10**5)},
            {"piece": cost},
            {"valid": random.choice((1, 300, 4_000)), "interval": random.choice((1, 50, 10**5))},
            {"weight": random.choice((1, 3, 1_000_000))},
            {"leaving": True},
            {"permit": request.born + 1, "permit_spent": ((-1, cost), *entries[:3])},
            {"debts": entries, "refunds": stamped, "moved": entries},
            {"debts": tuple((-age, 1e99) for age, _ in entries), "wave": random.randrange(3)},
            {"refunds": tuple((at, 1e300) for at, _ in stamped), "wave": random.randrange(3)},
            {"totals": tuple(random.random() for _ in range(random.choice((0, 1, 13, 32))))},
            {"label": "x" * random.choice((0, 300)), "reserved": cost, "spent": cost},
            {"format": FORMAT + 1},
            {"interval": random.choice((0, -1, 10**9, 2**53)), "valid": random.choice((0, 10**12))},
            {"weight": random.choice((0, -1, 10**9)), "waited": random.choice((0, 10**14))},
            {"released": units, "history": tuple((-age, 1e99) for age, _ in entries)},
            {"released": units, "stamped": tuple((at + 10**13, 1e99) for at, _ in stamped)},
            {"permit": request.born + 1, "permit_spent": tuple((age, 1e99) for age, _ in entries)},
            {random.choice(("units", "released", "left", "need")): random.choice((-1, 0.5, 1e308))},
            {"piece": random.choice((1e99, 1e300, -1.0)), "spent": 1e99, "by_permit": -1e99},
            {"terms": altered(request.terms, version=random.choice((0, 2**53)), in_force=1e-300)},
            {"label": "x" * 2_000, "totals": (1e99,) * random.choice((3, 130))},
            {"terms": altered(request.terms, capacity=cost)},
            {"terms": altered(request.terms, version=self.clock, served=random.random() < 0.5)},
            {"terms": altered(request.terms, period=700, served=True)},
            {"terms": altered(request.terms, lease=300)},
            {
                "terms": altered(
                    request.terms, in_force=request.terms.capacity / 3, rising=0.01, served=True
                )
            },
        ]
        change: dict[str, Any] = {}
        for _ in range(random.choice((1, 1, 2, 5))):
            change |= random.choice(changes)
        return altered(request, **change)

    def _something_happens(self) -> None:
        random = self.random
        name = random.choice(NAMES)
        what = random.randrange(13)
        if what < 3:
            capacity = random.choice((None, self.terms.capacity * random.choice((0.3, 1, 2.7))))
            self._set_terms(
                name,
                capacity=capacity,
                factor=random.choice((None, self.terms.factor, self.terms.capacity / 10_100)),
                period=random.choice((None, None, self.terms.period, 600)),
                lease=random.choice((None, None, self.terms.lease, 1_000)),
                ramp=random.choice((None, self.terms.capacity / 10_000)),
            )
        elif what == 3:
            self._both("delete", name, self.server, self.clock, self._token())
            if random.random() < 0.5:
                self._set_terms(name, capacity=7.0, factor=1.0, period=700, lease=900)
        elif what == 4:
            instance = random.choice([*(one for _, one in self.shares), "unknown"])
            self._both("evict", name, instance)
        elif what == 5:
            self.server = f"server{random.randrange(4)}"
            self.clock += random.choice((0, 0, 1, -5_000, 5_000, 10**7))
        elif what == 6:
            self._both("lose", name)
        elif what == 7:
            self._both("lose_registry")
        elif what == 8:
            self._both("lose_grants", name)
        elif what == 9 and random.random() < 0.3:
            self._both("corrupt", name)
            if random.random() < 0.5:
                self._both("delete", name, self.server, self.clock, self._token())
        elif what == 10:
            self.restore = [self.python.copied(), self.redis.copied()]
            self.copied_from = self.server
        elif what == 11:
            for restore in self.restore:
                restore()
            if random.random() < 0.7:
                self.server = self.copied_from  # an old server is in charge again
        else:
            self._join(f"late{self.calls}")

    def _set_terms(self, name: str, **terms: Any) -> None:
        change = LimitChange.scalar(**terms)
        self._both("set_terms", name, self.server, self.clock, self._token(), change)

    def _token(self) -> str:
        self.tokens += 1
        return f"token{self.tokens}"

    def _sync(self, name: str, request: Request) -> Reply:
        reply: Reply = self._both("sync", name, request, self.server, self.clock)
        self.nonces.append(reply.nonce)
        self.calls += 1
        self.kinds[reply.kind] = self.kinds.get(reply.kind, 0) + 1
        self.longest = max(self.longest, reply.waiting)
        if reply.permit:
            self.kinds["permit"] = self.kinds.get("permit", 0) + 1
        if reply.given:
            self.kinds["given"] = self.kinds.get("given", 0) + 1
        return reply

    def _both(self, method: str, *arguments: Any, **named: Any) -> Any:
        expected = getattr(self.python, method)(*arguments, **named)
        getattr(self.redis, method)(*arguments, **named)
        self._expected.append((expected, method, arguments))
        if self.calls % self.compare_every == 0 and method not in ("lose_registry", "mark"):
            self._compare(arguments[0])
        return expected

    def _compare(self, name: str) -> None:
        """Compare all answers since the last time, and the stored data of a limit."""
        self.redis.ask_for_stored(name)
        self._expected.append((self.python.stored(name), "stored", (name,)))
        expected, self._expected = self._expected, []
        for (one, method, arguments), other in zip(expected, self.redis.answers(), strict=True):
            if one != other:
                lines = "\n".join(differences(plain(one), plain(other))[:20])
                place = f"seed {self.seed}, by call {self.calls}, {method} {arguments}"
                raise DifferenceError(f"{place}:\n{lines}")


class Contention(History):
    """A few instances of odd weights share a limit whose capacity changes; nearly all have more
    work than they may do."""

    def __init__(self, scripts: Scripts, seed: int, compare_every: int = 10) -> None:
        super().__init__(scripts, seed, compare_every)
        self.hostile = 0.0
        self.calm = self.random.choice((0.9, 0.95, 0.99))
        self.shares, self.pieces = {}, {}
        for at in range(self.random.choice((2, 3, 4, 7, 13))):
            self._join(f"instance{at}")

    def _weight(self) -> int:
        return self.random.choice((1000, self.random.randrange(1, 1_000_001)))

    def _backlog(self) -> int:
        return self.random.choice((0, 3, 1000, 1000, 1000))

    def _something_happens(self) -> None:
        random = self.random
        if random.random() < 0.2:
            super()._something_happens()
            return
        by = random.choice((0.1, 0.5, 0.95, 1.05, 2.0, random.uniform(0.2, 3)))
        rate = self.terms.capacity / random.choice((100, 3_000, 50_000))
        ramp = rate if random.random() < 0.4 else None
        self._set_terms(NAMES[0], capacity=self.terms.capacity * by, ramp=ramp)


class Bounds(History):
    """Instances of a limit of one to four bounds: nested windows, slots, costs that count from the
    end of a call, different mixes, and capacities that an operator changes one by one."""

    parts: tuple[float, ...] = (0.001, 0.03, 0.03, 0.2, 1.0)
    """The cost of a batch as a part of the limit."""

    def __init__(self, scripts: Scripts, seed: int, compare_every: int = 1) -> None:
        super().__init__(scripts, seed, compare_every)
        random = self.random
        self.calm = random.choice((0.9, 0.98, 1.0))
        self.terms = self._terms()
        self.crowd_of: dict[tuple[str, str], BoundedInstance] = {}
        for at in range(random.choice((1, 2, 3, 5, 8, 13, 25))):
            self._arrive(f"bounded{at}")

    def _terms(self) -> Terms:
        random, bounds, parts = self.random, [], []
        for at in range(random.choice((1, 2, 2, 3, 4))):
            if random.random() < 0.3:
                slots = random.choice((1, 3, 20, 500))
                bounds.append(BoundTerms.in_flight(slots, random.choice((100, 1_000))))
                parts.append(BoundLayout(f"calls{at}", slots=True))
            else:
                period = random.choice((100, 1_000, 1_000, 6_000, 60_000))
                running = random.choice((0, 0, 500))
                capacity = random.choice((1e-3, 7.3, 10.0, 1_000.0, 123_456.7))
                bounds.append(BoundTerms.rate(capacity, period, running=running))
                parts.append(BoundLayout(f"rate{at // 2}", counts="end" if running else "start"))
        factor = bounds[0].capacity / random.choice((1, 3.7, 20))
        return Terms(tuple(bounds), factor, random.choice((400, 2_000)), layout_of(parts))

    def _arrive(self, instance: str) -> None:
        random, terms = self.random, self.terms
        if random.random() < 0.05:
            terms = random.choice((replace(terms, lease=terms.lease + 100), self._terms()))
        part = random.choice(self.parts)
        mix = tuple(
            float(random.choice((1, 1, 1, 2, 3, 10)))
            if one.slots
            else one.capacity * part * random.choice((0.0, 0.3, 1.0, 1.0))
            for one in terms.bounds
        )
        if not any(mix):
            mix = tuple(one.capacity * part for one in terms.bounds)
        self.crowd_of[NAMES[0], instance] = self._instance(
            instance,
            terms,
            mix,
            interval=random.choice((100, 500)),
            lasts=random.choice((5, 60)),
            weight=self._weight(),
        )

    def _instance(self, *arguments: Any, **named: Any) -> BoundedInstance:
        return BoundedInstance(*arguments, **named)

    def _one_calls(self) -> None:
        random = self.random
        (name, instance), one = random.choice(list(self.crowd_of.items()))
        if random.random() < 0.1 and self.sent:
            self._sync(*random.choice(self.sent[-30:]))  # a late copy of a request
            return
        now = round(self.now * 1_000)
        one.spend(now, random)
        one.backlog = random.random() < 0.8
        leaves = one.pending is None and bool(one.answers) and random.random() < 0.02
        request = one.compose(now, leaving=leaves)
        self.sent.append((name, request))
        if random.random() < self.hostile:
            request = self._changed(request)
        if random.random() < 0.05:
            return  # the request is lost on its way
        reply = self._sync(name, request)
        if random.random() < 0.1:
            if random.random() < 0.3:
                self._both("lose_grants", name)
            return  # the reply is lost
        if one.pending is None or reply.seq != one.pending.seq or reply.kind is Kind.REFUSED:
            self._leave(name, instance)
            return
        one.answered(reply, now)
        if leaves:
            self._leave(name, instance)

    def _leave(self, name: str, instance: str) -> None:
        del self.crowd_of[name, instance]
        self._arrive(f"{instance}x")

    def _changed(self, request: Request) -> Request:
        """Return a request with a bound that no instance would send."""
        request = super()._changed(request)
        random = self.random
        at = random.randrange(len(request.bounds))
        other = super()._changed(request).bounds[0]
        bounds = [*request.bounds]
        bounds[at] = replace(other, lacks=random.random() < 0.5)
        return replace(request, bounds=tuple(bounds))

    def _something_happens(self) -> None:
        random = self.random
        if random.random() < 0.6:
            super()._something_happens()
            return
        changes = [
            BoundChange(slots=one.slots, capacity=self._changed_capacity(one))
            for one in self.terms.bounds
        ]
        change = LimitChange(tuple(changes), layout=self.terms.layout)
        if random.random() < 0.2:
            self.terms = terms = self._terms()
            bounds = tuple(
                BoundChange(one.capacity, one.period, one.lasting, one.slots)
                for one in terms.bounds
            )
            change = LimitChange(bounds, terms.factor, terms.lease, terms.layout)
        self._both("set_terms", NAMES[0], self.server, self.clock, self._token(), change)

    def _changed_capacity(self, bound: BoundTerms) -> float:
        by = self.random.choice((0.0, 0.3, 1.0, 2.5))
        if not bound.slots:
            return bound.capacity * by
        return float(max(1, math.floor(bound.capacity * by))) if by else 0.0


class SettlingInstance(BoundedInstance):
    """An instance whose costs are corrected after its permits were reported: mostly to less,
    sometimes to more, and sometimes to impossible values."""

    def __init__(self, *arguments: Any, random: Random, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.random = random
        self.reported: list[tuple[int, Reply]] = []
        """The ages of reported uses, with the answers that granted them."""

    def _request(self, now: int, leaving: bool) -> Request:
        used, granted = [now - at for at in self._used], self._number
        request = super()._request(now, leaving)
        bounds = [self._settled(one, at) for at, one in enumerate(request.bounds)]
        self.reported = [one for one in self.reported if self.random.random() < 0.3]
        by = [one for one in self.answers if one.permit == granted]
        if granted and used and by:
            self.reported.append((used[0], by[0]))
        return replace(request, bounds=tuple(bounds))

    def _settled(self, request: BoundRequest, at: int) -> BoundRequest:
        random = self.random
        debts, refunds, moved, wave = [], [], [], 0
        for age, reply in self.reported:
            one, period = reply.bounds[at], self.terms.bounds[at].period
            part = random.choice((0.0, 0.2, 0.9, 1.0))
            if random.random() < 0.3:
                debts.append((random.randrange(period), one.permit_cost * 2 * part))
            elif one.permit_stayed > 0:
                stamp = min(one.permit_at, slice_end(reply.heard - age, period))
                stamp = random.choice((stamp, stamp, one.permit_at))
                wave = max(wave, one.permit_wave)
                refunds.append((stamp, one.permit_cost * part / one.permit_stayed))
                if random.random() < 0.3:
                    cost = one.permit_cost * part * random.random() / one.permit_stayed
                    moved.append((random.randrange(period), cost))
        return replace(
            request, debts=tuple(debts), refunds=tuple(refunds), moved=tuple(moved), wave=wave
        )


class Settled(Bounds):
    """Bounds with costs that are known after the call, on a server that grants immediately."""

    parts = (0.03, 0.1, 0.1, 0.3)

    def __init__(self, scripts: Scripts, seed: int, compare_every: int = 1) -> None:
        super().__init__(scripts, seed, compare_every)
        self.calm = self.random.choice((0.98, 1.0))
        self.hostile = self.random.choice((0.0, 0.05))
        if self.registered:
            self._both("lose_registry")
            self._both("mark", "server1")

    def _instance(self, *arguments: Any, **named: Any) -> BoundedInstance:
        return SettlingInstance(*arguments, random=self.random, **named)


def short(scripts: Scripts, seed: int) -> int:
    """Return the number of calls of a short history. Raise DifferenceError if the two differ."""
    return _played(History(scripts, seed), 50)


def long(scripts: Scripts, seed: int) -> int:
    """Play a long history."""
    return _played(History(scripts, seed, compare_every=25), 400)


def contention(scripts: Scripts, seed: int) -> int:
    """Play a history in which most instances wait for capacity all the time."""
    return _played(Contention(scripts, seed), 120)


def queue(scripts: Scripts, seed: int) -> int:
    """Play a history in which many instances wait for permits."""
    history = History(scripts, seed, compare_every=25)
    history.crowd(history.random.choice((5, 30, 40, 70)), rounds=3)
    return history.calls


def fleet(scripts: Scripts, seed: int) -> int:
    """Play a history of a limit that many instances share."""
    history = History(scripts, seed, compare_every=25)
    history.fleet(history.random.choice((60, 70, 130)), rounds=8)
    return history.calls


def bounds(scripts: Scripts, seed: int) -> int:
    """Play a history of a limit with one to four bounds, compared after each request."""
    return _played(Bounds(scripts, seed), 60)


def long_bounds(scripts: Scripts, seed: int) -> int:
    """Play a long history of a limit with one to four bounds."""
    return _played(Bounds(scripts, seed, compare_every=25), 500)


def settled(scripts: Scripts, seed: int) -> int:
    """Play a history with costs that are known after the call."""
    return _played(Settled(scripts, seed), 80)


def _played(history: History, steps: int) -> int:
    history.run(steps)
    return history.calls


HISTORIES: dict[str, Callable[[Scripts, int], int]] = {
    "short": short,
    "long": long,
    "contention": contention,
    "queue": queue,
    "fleet": fleet,
    "bounds": bounds,
    "long bounds": long_bounds,
    "settled": settled,
}
