"""A model of settlement: true costs that are known after the call, through hand-overs, permits,
expiry, other servers and requests that are lost or arrive twice.

One limit of one rate, amounts as fractions of it. It shares no code with the product. `rules` are
what the design consists of: without one of them, the judge has to find windows over the limit.

The design it confirms:

* A ledger keeps which share of it `stayed` since a spend: the product of what was kept at each
  hand-over. A refund is taken in full from what stayed of its own entry, as far as that suffices:
  all ledgers together still count no less than was spent, and for as long. Taken from other slices,
  it would break a window.
* An excess counts in full: the share that stayed where the spend was entered, the rest is sent to
  the pool as a debt. (Entered in full at its payer, it is lost if that has handed over everything
  since, and blocks what little it has left, if it has kept a little.)
* What a permit paid for is in the pool's ledger. Its stamp there is known to the instance only when
  the answer to its report says when that was served first: an answer that is repeated says the
  same.
* A refund of a permit names the stamp, and the share of the pool that had stayed when it was
  granted; the coordinator grants it up to what the permits of this record of the last two spans of
  an entry have cost. With another server, after a doubt, or if the report was lost: nothing.
* A debt is an age and a cost. If its request was ended without an answer, it is sent again.
* Where costs count from the end of a call, running calls are never handed over, and settled before
  they are stamped; a permit keeps its latest stamp until then.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Any

CAPACITY = 1000.0
SLICES = 100
SEEDS = 60
"""How many storms of each kind are tried."""


RULES = frozenset(
    {
        "refunds keep to what stayed",
        "waves",
        "stamps of the first answer",
        "allowance",
        "refunds count once",
        "debts count",
        "debts are sent again",
        "debts of what was handed over",
        "settled in the ledger",
        "running calls stay",
        "another server drops refunds",
        "a lost report drops refunds",
    }
)


class Ledger(dict[int, float]):
    """Cost by the end of a slice."""

    def add(self, at: int, cost: float) -> None:
        self[at] = self.get(at, 0.0) + cost

    def take(self, at: int, cost: float) -> None:
        if at in self:
            self[at] = max(0.0, self[at] - cost)

    def split(self, part: float) -> Ledger:
        taken = Ledger({at: cost * part for at, cost in self.items()})
        for at, cost in taken.items():
            self[at] -= cost
        return taken

    def total(self, since: int) -> float:
        for at in [at for at in self if at <= since]:
            del self[at]
        return math.fsum(self.values())


@dataclass
class Stayed:
    """Which share of a ledger has stayed, in waves: a wave ends when nearly nothing of it has."""

    share: float = 1.0
    wave: int = 0

    def handed_over(self, part: float) -> None:
        self.share *= 1 - part
        if self.share < 1e-6:
            self.share, self.wave = 1.0, self.wave + 1

    def since(self, share: float, wave: int) -> float:
        return self.share / share if wave == self.wave else 0.0


@dataclass
class Call:
    """One call: what was estimated, what it costs, who pays for it."""

    start: int
    end: int
    estimated: float
    cost: float
    owner: Instance
    payer: str
    """How the call is paid for: `share` or `permit`."""
    at: int = 0
    """The slice of its entry; of a permit, as soon as it is known."""
    stayed: tuple[float, int] = (1.0, 0)
    counted: float = 0.0
    state: str = "held"
    """Of a permit: held, reported, refundable, or dropped."""
    age: int = 0
    """The age of the settlement when it was reported."""
    ended: bool = False
    killed: bool = False

    @property
    def payer_of_it(self) -> str:
        """The pool pays for all permits."""
        return self.owner.name if self.payer == "share" else "pool"


@dataclass
class Record:
    units: float = 0.0
    seq: int = 0
    born: int = 0
    given: Ledger = field(default_factory=Ledger)
    gone: int = 0
    permit: tuple[int, int, float, float, int] | None = None
    """(number, stamp, cost, stayed, wave)"""
    allowed: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Amounts that may be refunded, of this epoch and of the one before."""
    seen: int = 0
    wants: bool = False
    answer: dict[str, Any] = field(default_factory=dict)


class Server:
    """A model of the coordinator: what it stores of each instance, and what it answers."""

    def __init__(self, world: World, not_before: int = 0) -> None:
        self.w = world
        self.name = f"s{next(world.numbers)}"
        self.not_before = not_before
        self.pool, self.ledger, self.stayed = 1.0, Ledger(), Stayed()
        self.records: dict[str, Record] = {}

    def collect(self, now: int) -> None:
        for name in [name for name, one in self.records.items() if one.gone <= now]:
            self.pool += self.records.pop(name).units

    def sync(self, q: dict[str, Any], now: int) -> dict[str, Any] | None:
        w = self.w
        self.collect(now)
        record = self.records.get(q["name"])
        if record is not None and q["seq"] < record.seq:
            return None
        if record is not None and q["seq"] == record.seq:
            if "stamps of the first answer" in w.rules:
                return record.answer
            return record.answer | {"heard": now}
        if record is not None and q["born"] != record.born:  # it never received what was granted
            self.pool += record.units
            for at, cost in record.given.items():
                self.ledger.add(at, cost)
            del self.records[q["name"]]
            record = None
        if (record is None and q["units"] > 0) or now < self.not_before:
            return {"challenge": True, "server": self.name, "seq": q["seq"]}
        if record is None:
            born = next(w.numbers)
            record = self.records[q["name"]] = Record(born=born, gone=now + w.silent)
        self.hear(record, q, now)
        record.seq, record.seen, record.wants = q["seq"], now, q["want"] > 0
        record.gone = now + w.silent
        given, permit = self.grant(record, q, now)
        record.given = given
        record.answer = {
            "born": record.born,
            "challenge": False,
            "server": self.name,
            "seq": q["seq"],
            "units": record.units,
            "given": [(at, now - at, cost) for at, cost in given.items()],
            "heard": now,
            "permit": permit,
            "keep": q["want"] / max(1, self.wanting()) * w.by_share,
        }
        return record.answer

    def wanting(self) -> int:
        return sum(one.wants for one in self.records.values())

    def hear(self, record: Record, q: dict[str, Any], now: int) -> None:
        w = self.w
        released = min(q["released"], record.units)
        record.units -= released
        self.pool += released
        if released:
            for age, cost in q["history"]:
                self.ledger.add(w.slice_end(now - age), cost)
            for at, cost in q["stamped"]:
                self.ledger.add(at, cost)
        epochs = now // w.life - record.seen // w.life
        if epochs:
            record.allowed = [0.0, record.allowed[0] if epochs == 1 else 0.0]
        if record.permit is not None:
            number, at, cost, share, wave = record.permit
            stayed, record.permit = self.stayed.since(share, wave), None
            if q["permit"] == number:
                self.ledger.take(at, cost * stayed)
                for age, used in q["permit_spent"]:
                    stamp = at if age < 0 else min(at, w.slice_end(now - age))
                    self.ledger.add(stamp, used * stayed)
        if q["server"] == self.name or "another server drops refunds" not in w.rules:
            self.refund(record, q["refunds"])
        if "debts count" in w.rules:
            for age, cost in q["debts"]:
                self.ledger.add(w.slice_end(now - age), min(cost, CAPACITY))

    def refund(self, record: Record, refunds: Iterable[tuple[int, float, int, float]]) -> None:
        w = self.w
        for at, share, wave, cost in refunds:
            stayed = self.stayed.since(share, wave)
            if "waves" not in w.rules:
                stayed = self.stayed.share / share
            if "refunds keep to what stayed" not in w.rules:
                stayed = 1.0
            if "allowance" in w.rules:
                cost = min(cost, sum(record.allowed))
                first = min(cost, record.allowed[1])
                record.allowed[1] -= first
                record.allowed[0] -= cost - first
            self.ledger.take(at, cost * stayed)

    def grant(self, record: Record, q: dict[str, Any], now: int) -> tuple[Ledger, Any]:
        w, permit, given = self.w, None, Ledger()
        if q["leaving"]:
            return given, None
        spent = self.ledger.total(now - w.counts)
        if q["ask"] and self.pool * w.capacity - spent >= q["ask"]:
            at = w.slice_end(now + w.valid + w.running)
            number = next(w.numbers)
            self.ledger.add(at, q["ask"])
            record.permit = number, at, q["ask"], self.stayed.share, self.stayed.wave
            record.allowed[0] += q["ask"]
            permit = (number, at, q["ask"], self.stayed.share, self.stayed.wave)
        right = min(q["want"], 1.0 / max(1, self.wanting()) * w.by_share)
        units = min(right - record.units, self.pool)
        if units > 1e-3:
            part = min(1.0, units / self.pool)
            given = self.ledger.split(part)
            self.stayed.handed_over(part)
            self.pool -= units
            record.units += units
        return given, permit


class Instance:
    def __init__(self, world: World, name: str) -> None:
        self.w, self.name = world, name
        self.alive, self.busy, self.leaving = True, True, False
        self.estimated = CAPACITY * world.random.choice([0.01, 0.03, 0.1])
        self.units, self.until, self.keep = 0.0, -1, 1.0
        self.ledger, self.stayed = Ledger(), Stayed()
        self.inherited: dict[int, tuple[float, int]] = {}
        self.running: list[Call] = []
        """Of a share that counts from the end: they are not in the ledger yet."""
        self.seq, self.born, self.server = 0, 0, ""
        self.pending: dict[str, Any] | None = None
        self.composed = 0
        self.permit: tuple[int, int, float, float, int] | None = None
        self.permit_until = -1
        self.closing = 0
        self.held: list[Call] = []
        """Calls of the last permit, not reported."""
        self.reported: list[Call] = []
        """Corrections that are in the pending request."""
        self.debts: list[tuple[int, float]] = []
        self.refunds: list[Call] = []
        self.sent_refunds: list[tuple[int, float, int, float]] = []

    # Spending.

    def spent(self, now: int) -> float:
        self.inherited = {at: one for at, one in self.inherited.items() if one[1] > now}
        own = self.ledger.total(now - self.w.counts) + math.fsum(c.counted for c in self.running)
        return own + math.fsum(cost for cost, _ in self.inherited.values())

    def spend(self, now: int) -> None:
        w = self.w
        if now >= self.until:
            self.units = 0.0
        if self.permit and now < self.permit_until and self.busy:
            self.begin("permit", now)
        while self.busy and self.units:
            if self.spent(now) + self.estimated > self.units * w.capacity + 1e-9:
                break
            self.begin("share", now)

    def begin(self, payer: str, now: int) -> None:
        w = self.w
        call = w.call(self, payer, now)
        if payer == "permit":
            assert self.permit is not None
            self.closing, call.at = self.permit[0], self.permit[1]
            call.stayed = self.permit[3:]
            self.permit = None
            self.held.append(call)
        elif w.at_end:
            self.running.append(call)
        else:
            call.at = w.slice_end(now)
            call.stayed = self.stayed.share, self.stayed.wave
            self.ledger.add(call.at, call.estimated)
        w.at(call.end, self.end, call)

    def end(self, call: Call) -> None:
        """The call ends, and says what it cost."""
        if not self.alive:
            return
        w, now = self.w, self.w.now
        call.ended = True
        before, call.counted = call.counted, call.cost
        more = call.cost - before
        if call.payer == "permit":
            if call.state == "held":
                return
            if more > 0:
                self.debts.append((now if w.at_end else call.start, more))
            elif call.state in ("reported", "refundable"):
                self.refunds.append(call)
        elif w.at_end:
            self.running.remove(call)
            self.ledger.add(w.slice_end(now), call.cost)
        elif "settled in the ledger" in w.rules:
            stayed = self.stayed.since(*call.stayed)
            if more > 0 and call.at > now - w.counts:
                if "debts of what was handed over" in w.rules:
                    self.ledger.add(call.at, more * stayed)
                    self.debts.append((call.start, more * (1 - stayed)))
                else:
                    self.ledger.add(call.at, more * stayed)
            elif more < 0:
                if "refunds keep to what stayed" not in w.rules:
                    stayed = 1.0
                self.ledger.take(call.at, min(-more, before * stayed))

    # Asking.

    def compose(self, now: int) -> dict[str, Any]:
        w = self.w
        if now >= self.until:
            self.units = 0.0
        if self.pending is not None:
            return self.pending
        more = self.units - self.keep if not self.leaving else self.units
        released, history, stamped = 0.0, [], []
        pledged = math.fsum(call.counted for call in self.running)
        if pledged and more > 0 and "running calls stay" in w.rules:
            free = self.units * w.capacity - (self.spent(now) - pledged)
            more = min(more, self.units * max(0.0, 1 - pledged / free) if free > 0 else 0.0)
        if more > 1e-6:
            part = more / self.units
            self.spent(now)
            own = self.ledger.split(part)
            history = [(now - at, cost) for at, cost in own.items()]
            stamped = [(at, cost * part) for at, (cost, _) in self.inherited.items()]
            self.inherited = {at: (c * (1 - part), e) for at, (c, e) in self.inherited.items()}
            self.stayed.handed_over(part)
            self.units -= more
            released = more
        closing = self.closing or (self.permit[0] if self.permit else 0)
        used = []
        for call in self.held:
            age = now - call.start
            if w.at_end:
                age = now - call.end if call.ended else -1
            call.age = age
            used.append((age, min(call.estimated, call.counted)))
            if call.counted > call.estimated:
                self.debts.append(
                    (call.end if w.at_end else call.start, call.counted - call.estimated)
                )
            call.state = "reported"
        self.reported, self.held, self.permit, self.closing = self.held, [], None, 0
        ready = [one for one in self.refunds if one.state == "refundable"]
        self.refunds = [one for one in self.refunds if one.state == "reported"]
        self.sent_refunds = [(one.at, *one.stayed, one.estimated - one.counted) for one in ready]
        self.sent_debts, self.debts = self.debts, []
        short = self.busy and self.spent(now) + self.estimated > self.units * w.capacity
        self.seq += 1
        self.pending = {
            "name": self.name,
            "seq": self.seq,
            "born": self.born,
            "units": self.units,
            "released": released,
            "history": history,
            "stamped": stamped,
            "permit": closing,
            "permit_spent": used,
            "server": self.server,
            "refunds": self.sent_refunds,
            "debts": [(max(0, now - at), cost) for at, cost in self.sent_debts],
            "want": (1.0 if self.busy else 0.0) * (not self.leaving),
            "ask": self.estimated if short and not self.leaving else 0.0,
            "leaving": self.leaving,
        }
        self.composed = now
        return self.pending

    def receive(self, r: dict[str, Any]) -> None:
        w, now = self.w, self.w.now
        if not self.alive or self.pending is None:
            return
        if r["seq"] != self.pending["seq"]:
            return
        if r["challenge"]:
            self.ended_without_an_answer()
            return
        self.pending = None
        if r["server"] != self.server:
            self.drop_refunds()
            self.inherited = {-n: one for n, one in enumerate(self.inherited.values(), 1)}
        self.server, self.born = r["server"], r["born"]
        for call in self.reported:
            if call.state == "reported":
                call.state = "refundable"
                if call.age >= 0:
                    call.at = min(call.at, w.slice_end(r["heard"] - call.age))
        self.reported = []
        for at, age, cost in r["given"]:
            before = self.inherited.get(at, (0.0, 0))
            expires = max(before[1], now - age + w.counts)
            self.inherited[at] = before[0] + cost, expires
        self.units, self.keep = r["units"], r["keep"]
        self.until = self.composed + w.lease - 2
        if r["permit"]:
            self.permit, self.permit_until = r["permit"], self.composed + w.valid
        if "refunds count once" not in w.rules:
            for at, share, wave, cost in self.sent_refunds:
                again = Call(0, 0, cost, 0.0, self, "permit", at, (share, wave))
                again.state = "refundable"
                self.refunds.append(again)
        self.spend(now)

    def ended_without_an_answer(self) -> None:
        self.pending = None
        self.server, self.born = "", 0
        if "debts are sent again" in self.w.rules:
            self.debts += self.sent_debts
        if "a lost report drops refunds" in self.w.rules:
            for call in self.reported:
                call.state = "dropped"
        self.reported = []
        self.units, self.until = 0.0, -1  # a claim is another model's subject

    def drop_refunds(self) -> None:
        if "another server drops refunds" in self.w.rules:
            self.refunds = []
            if self.permit:
                self.permit = (*self.permit[:4], -1)  # of no wave
            for call in (*self.held, *self.w.calls):
                if call.owner is self and call.payer == "permit" and call.state != "held":
                    call.state = "dropped"


class World:
    """The weather, and the judge."""

    def __init__(
        self,
        seed: int,
        rules: frozenset[str] = RULES,
        *,
        under: float = 0.0,
        at_end: bool | None = None,
        calm: bool = False,
    ) -> None:
        """`under`: the share of estimates that are too low, by up to three times."""
        random = self.random = Random(seed)
        self.rules, self.under, self.calm = rules, under, calm
        self.numbers = iter(range(1, 10**9))
        self.period = random.choice([500, 1000, 3000])
        self.lease = random.choice([600, 1000, 2000])
        self.interval = max(50, self.lease // random.choice([4, 5, 8]))
        self.at_end = random.random() < 0.3 if at_end is None else at_end
        self.longest = round(self.period * random.choice([0.05, 0.3, 1.0, 1.6]))
        self.running = self.longest if self.at_end else 0
        self.counts = self.period + 6
        self.valid = min(300, self.period // 4 + 20)
        self.life = self.counts + self.running + self.valid + self.period // SLICES + 1
        self.silent = self.lease + self.counts + self.running
        self.by_share = random.choice([0.0, 0.4, 0.9, 0.9])
        self.capacity = CAPACITY
        self.capacities = [(0, CAPACITY)]
        self.loss = 0.0 if calm else random.choice([0, 0.02, 0.2])
        self.end = 40 * max(self.period, self.lease // 2)
        self.now = 0
        self.events: list[tuple[int, int, Callable[..., None], Any]] = []
        self.calls: list[Call] = []
        self.instances: list[Instance] = []
        self.server = Server(self)
        for _ in range(random.randint(1, 6)):
            self.come()
        self.at(1, self.look)
        if not calm:
            self.at(1000, self.strike)

    def slice_end(self, at: int) -> int:
        width = max(1, self.period // SLICES)
        return -(-at // width) * width

    def call(self, owner: Instance, payer: str, now: int) -> Call:
        random, estimated = self.random, owner.estimated
        cost = estimated * random.choice([0.0, 0.2, 0.2, 0.5, 1.0])
        if random.random() < self.under:
            cost = estimated * random.uniform(1, 3)
        end = now + random.randint(0, self.longest)
        call = Call(now, end, estimated, cost, owner, payer, counted=estimated)
        self.calls.append(call)
        return call

    def at(self, when: int, do: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self.events, (when, next(self.numbers), do, arguments))

    def come(self) -> None:
        one = Instance(self, f"i{next(self.numbers)}")
        self.instances.append(one)
        self.at(self.now + self.random.randint(1, self.interval), self.ask, one)

    @property
    def delay(self) -> int:
        random = self.random
        if self.loss and random.random() < 0.1:
            return random.randint(1, 3 * self.lease)
        return random.randint(1, 10)

    def look(self) -> None:
        for one in self.instances:
            if one.alive:
                one.spend(self.now)
        self.at(self.now + max(1, self.period // 100), self.look)

    def ask(self, one: Instance) -> None:
        if not one.alive:
            return
        one.spend(self.now)
        request = one.compose(self.now)
        copies = 1 + (self.loss > 0 and self.random.random() < 0.1)
        for _ in range(copies):
            if self.random.random() >= self.loss:
                self.at(self.now + self.delay, self.serve, one, dict(request), self.server)
        quick = self.by_share == 0 and self.random.random() < 0.5
        self.at(self.now + (50 if quick else self.interval), self.ask, one)

    def serve(self, one: Instance, request: dict[str, Any], server: Server) -> None:
        server = server if self.calm or self.random.random() < 0.5 else self.server
        reply = server.sync(request, self.now) if server is self.server else None
        if reply is not None and self.random.random() >= self.loss:
            self.at(self.now + self.delay, one.receive, reply)

    def strike(self) -> None:
        random = self.random
        live = [one for one in self.instances if one.alive]
        event, one = random.random(), random.choice(live)
        if event < 0.15:
            one.alive = False
            for call in self.calls:
                call.killed = call.killed or (call.owner is one and call.end > self.now)
            self.come()
        elif event < 0.18:
            self.server = Server(self, self.now + self.silent)
        elif event < 0.28:
            self.capacity = CAPACITY * random.choice([0.5, 1.0, 1.0, 1.0])
            self.capacities.append((self.now, self.capacity))
        elif event < 0.8:
            one.busy = not one.busy or random.random() < 0.5
        elif len(live) < 8:
            self.come()
        self.at(self.now + round(random.expovariate(1 / self.period)) + 1, self.strike)

    def run(self) -> World:
        while self.events and self.events[0][0] <= self.end:
            self.now, _, do, arguments = heapq.heappop(self.events)
            do(*arguments)
        return self

    # The judge: actual costs; of what was killed in mid-call, what was estimated.

    def costs(self) -> list[tuple[int, float]]:
        """(when it counts from, what it costs) of each call that is over."""
        known = [one for one in self.calls if not (self.at_end and one.end > self.end)]
        return sorted(
            (one.end if self.at_end else one.start, one.estimated if one.killed else one.cost)
            for one in known
            if not (one.killed and self.at_end)
        )

    def worst(self) -> float:
        """The fullest window, as a share of the largest capacity in force in it."""
        log = self.costs()
        times, sums = [at for at, _ in log], [0.0, *accumulate(cost for _, cost in log)]
        worst = 0.0
        for index, at in enumerate(times):
            spent = sums[index + 1] - sums[bisect_right(times, at - self.period)]
            worst = max(worst, spent / self.most(at))
        return worst

    def excess(self) -> float:
        """The fullest window without the excess of what was in flight in it: of calls that were not
        over, and reported, when their payer paid for the last one."""
        known = sorted(self.calls, key=lambda one: one.start)
        known_after = 3 * self.interval + 40
        worst = -math.inf
        starts = [one.start for one in known]
        for index, last in enumerate(known):
            first = bisect_right(starts, last.start - self.period)
            inside = known[first : index + 1]
            spent = math.fsum(one.cost for one in inside)
            # Of each payer, what was not known when it paid for the last time.
            lasts = {one.payer_of_it: one.start for one in inside}
            unknown = math.fsum(
                max(0.0, one.cost - one.estimated)
                for one in inside
                if one.end + known_after > lasts[one.payer_of_it]
            )
            worst = max(worst, (spent - unknown) / self.most(last.start))
        return worst

    def most(self, at: int) -> float:
        since = at - self.period - self.lease - self.running - 50
        steps = self.capacities
        first = max(0, bisect_right(steps, (since, math.inf)) - 1)
        return max(capacity for when, capacity in steps[first:] if when <= at)

    def used(self) -> float:
        """Of the capacity, by actual costs, after two periods."""
        log = [cost for at, cost in self.costs() if 2 * self.period < at <= self.end]
        return sum(log) / CAPACITY / (self.end - 2 * self.period) * self.period


def over(seeds: range, rules: frozenset[str] = RULES, **weather: Any) -> dict[int, float]:
    """The storms in which a window was over, and by how much."""
    judged = {seed: World(seed, rules, **weather).run().worst() for seed in seeds}
    return {seed: worst for seed, worst in judged.items() if worst > 1 + 1e-6}


def worst_beside_flight(rules: frozenset[str] = RULES) -> float:
    """The fullest window without what was in flight, if a fifth of the estimates is too low."""
    calm = [World(seed, rules, under=0.2, at_end=False, calm=True) for seed in range(SEEDS)]
    return max(one.run().excess() for one in calm)
