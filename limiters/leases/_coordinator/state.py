"""What the coordinator stores: of the limit and each of its bounds, of each instance and what it
holds, and of the server. Plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from limiters.leases._coordinator.shares import Filling, Level
from limiters.leases._format import (
    FEW_A_SECOND,
    FEW_BATCHES,
    FEW_WITHOUT_SHARE,
    LATEST,
    MAX_NAMES,
    MIN_CAPACITY,
    NEVER,
    UNITS,
    WEIGHT_SCALE,
    WHOLE_BATCHES,
)
from limiters.leases._ledger import Ledger
from limiters.leases._messages import BoundTerms, Terms


@dataclass(slots=True)
class Ramp:
    """How the capacity in force rises to that of the terms."""

    start: float = 0.0
    at: int = 0
    rate: float = 0.0
    """By how much for each millisecond; 0 if all of it is in force."""

    def in_force(self, goal: float, now: int) -> float:
        """The capacity in force at `now`."""
        if self.rate <= 0:
            return goal
        return min(goal, max(MIN_CAPACITY, self.start + self.rate * max(0, now - self.at)))


@dataclass(slots=True)
class BoundPermit:
    """What the last permit of an instance costs in one bound, until its next request reports how it
    was used."""

    at: int = 0
    """The stamp of its entry in the pool's ledger."""
    cost: float = 0.0
    stayed: float = 0.0
    wave: int = 0


@dataclass(slots=True)
class Holding:
    """What one instance holds of one bound, in units, and what it wants of it."""

    units: int = 0
    need: int = 0
    ask: float = 0.0
    piece: float = 0.0
    """What a batch costs; how many slots it takes."""
    permit: BoundPermit = field(default_factory=BoundPermit)
    spent: float = 0.0
    reserved: float = 0.0
    share: int = 0
    fair: float = 0.0
    """What its dominant share was worth here when its turn was last computed; of slots, how much of
    one it saves for that. 0 as long as it is new."""
    granted: int = 0
    """How much its last grant was; 0 if nothing came along."""
    given: Ledger = field(default_factory=Ledger)
    """What came along with its last grant. A store may lose it."""
    served_at: int = NEVER
    """Of slots: when it was last seen with one of those that are left over, in an epoch in which it
    has a right to that."""
    due_at: int = NEVER
    """Of slots of which a batch takes several: when its fair share has made up for its last turn
    with one batch more than that."""
    refundable: float = 0.0
    """How much of its permits of this epoch may be refunded."""
    refundable_before: float = 0.0
    """The same of the epoch before."""

    @property
    def given_is_lost(self) -> bool:
        """Whether something came along with the last grant, and it is not known what."""
        return self.granted > 0 and not self.given.entries


@dataclass(slots=True)
class Record:
    """What is stored of one instance. Times are those of the coordinator."""

    holdings: list[Holding]
    """Of each bound of the limit."""
    seq: int = 0
    born: int = 0
    arrival: int = 0
    """The number of its arrival: by this it takes turns with slots that are left over."""
    until: int = 0
    """When its lease ends."""
    gone: int = 0
    """When it holds its lease no more, even if its last answer was late. What it held of a bound
    returns when its charges there count no more."""
    seen: int = 0
    interval: int = 0
    weight: int = WEIGHT_SCALE
    ask_since: int = 0
    gathers: bool = False
    turn: float = 0.0
    """When its next permit is due, by the clock of turns."""
    permit: int = 0
    """The number of its last permit, until its next request reports how it was used."""
    evicted: bool = False
    counted: bool = False
    """Whether the totals of its last request were counted."""
    label: str = ""

    @property
    def needs(self) -> list[int]:
        """Of each bound, in units."""
        return [one.need for one in self.holdings]

    @property
    def ask(self) -> list[float]:
        """The cost for which it waits for a permit, of each bound; zeros if it does not."""
        return [one.ask for one in self.holdings]

    @property
    def asks(self) -> bool:
        """Whether it waits for a permit."""
        return any(one.ask for one in self.holdings)

    @property
    def holds(self) -> bool:
        """Whether it holds something of any bound."""
        return any(one.units for one in self.holdings)

    @property
    def given_is_lost(self) -> bool:
        """Whether something came along with the last grant, and it is not known what."""
        return any(one.given_is_lost for one in self.holdings)


@dataclass(slots=True, order=True)
class Waiter:
    """One who waits for a permit, as the header keeps it. In order of turns."""

    later: bool
    """Whether it lives on a share and only asks for more: after all who live on permits."""
    turn: float
    since: int
    instance: str
    ask: list[float] = field(compare=False)
    """Of each bound."""
    silent: int = field(compare=False)
    """When it loses its place, unless it asks again."""
    fair: int = field(compare=False)
    """Its dominant share, in parts of UNITS."""


@dataclass(slots=True)
class RoundSums:
    """Of one bound: what the instances add up to that a round has visited so far."""

    needs: int = 0
    shares: int = 0
    """Fair shares, in whole units."""
    fair: Filling = field(default_factory=Filling)
    level: Filling = field(default_factory=Filling)
    """Of those that do not live on permits."""
    aside: int = 0
    """Fair shares of those that live on permits."""
    satisfied: int = 0
    """Needs of those that have a share and need no more."""
    rights: int = 0
    """Of slots: rights before lots are drawn."""
    lacking: int = 0
    unserved: int = 0
    """Of slots: how many instances have not had their turn in this epoch."""
    rest: int = 0
    """Of slots, in parts of one: what is left of shares when they are rounded down to batches of
    several slots, and has not gone into turns that are under way."""
    turns: int = 0
    """Of slots: those of instances whose turn with such a batch is under way."""
    taken: int = 0
    """Of slots: rights of those that have such a turn."""
    kept: int = 0
    """Of slots, in parts of one: rights of the others that slots do not limit, or that take several
    for a batch."""
    scaled: int = 0
    """Of slots, in parts of one: rights of those that slots limit, with batches of one."""
    lots: dict[int, int] = field(default_factory=dict)
    """Of slots: how many instances have each lot; and how many slots those need that have each
    place in the line."""


@dataclass(slots=True)
class BoundState:
    """One bound of the limit: a window of a rate, or how many calls may be in flight."""

    terms: BoundTerms
    ramp: Ramp = field(default_factory=Ramp)
    peak: float = 0.0
    """The most that an instance may have been told was in force, before an operator changed it."""
    peak_until: int = NEVER
    """Up to then it may have spent on that, and that counts."""
    whole: int = UNITS
    """How many units there are: those of slots change with their number."""
    pool: int = UNITS
    """What nobody holds. Negative while instances hold more slots than there are now."""
    ledger: Ledger = field(default_factory=Ledger)
    """Spending on what the pool holds, permits included. Nothing of slots."""
    returning: list[tuple[int, int]] = field(default_factory=list)
    """(when, how much) comes back to the pool without its spending being known."""
    stayed: float = 1.0
    """The share of the pool of this wave that was not handed over since."""
    wave: int = 0
    fair: Level = field(default_factory=Level)
    """The level if nothing were kept aside for permits."""
    level: Level = field(default_factory=Level)
    needs: int = 0
    spare: float = 0.0
    """How much more than it needs an instance may hold, as a share of that, as nobody is short."""
    ease: float = 1.0
    """How many times what their mixes use instances may hold, as another bound is short."""
    lot: int = 0
    """Of slots: up to which lot instances have one slot more."""
    lacking: int = 0
    """Of slots: how many of them instances have a right to that others hold."""
    epoch: int = 0
    """Of slots: by which those that are left over go around."""
    epoch_since: int = NEVER
    served_at: int = NEVER
    """When the last turn of an epoch began."""
    turns: int = 0
    """Of slots: up to which place in the line instances have a batch of several slots more."""
    line_at: int = NEVER
    """When the last of these turns began."""
    line_from: int = NEVER
    """Those of these turns that began up to then are over: they took more slots than there are."""
    keeps: float = 1.0
    """Of slots: the part of their rights that is left to those that slots do not limit, while
    others have such turns."""
    scale: float = 1.0
    """The same of those that slots limit: more than all of it between such turns."""
    sums: RoundSums = field(default_factory=RoundSums)

    def in_force(self, now: int) -> float:
        """The capacity in force; of slots, a whole number."""
        capacity = self.ramp.in_force(self.terms.capacity, now)
        return float(max(1, math.floor(capacity))) if self.terms.slots else capacity

    def most_in_force(self, now: int) -> float:
        """The most that any spending that counts may have been based on."""
        return max(self.in_force(now), self.peak if now < self.peak_until else 0.0)

    def worth(self, now: int) -> float:
        """What one unit is worth."""
        return 1.0 if self.terms.slots else self.in_force(now) / UNITS

    def resize(self, now: int) -> None:
        """Follows the number of slots in force. What instances hold beyond that, they release."""
        whole = math.floor(self.in_force(now)) if self.terms.slots else UNITS
        self.pool += whole - self.whole
        self.whole = whole

    def start_over(self, now: int) -> None:
        """Forgets who holds what."""
        self.resize(now)
        self.pool, self.ledger, self.returning = self.whole, Ledger(), []
        self.stayed, self.wave = 1.0, self.wave + 1
        self.fair = self.level = Level()
        self.needs, self.spare, self.ease, self.lot, self.lacking = 0, 0.0, 1.0, 0, 0
        self.epoch, self.epoch_since, self.served_at = 0, NEVER, NEVER
        self.turns, self.line_at, self.line_from = 0, NEVER, NEVER
        self.keeps, self.scale = 1.0, 1.0


@dataclass(slots=True)
class Limit:
    """The limit itself: what a hash keeps, beside a record for each instance."""

    server: str
    nonce: str
    terms: Terms
    now: int
    """The coordinator's time: as much of the server's clock as was confirmed."""
    bounds: list[BoundState] = field(default_factory=list)
    skew: int = 0
    """How far the server's clock is ahead of it."""
    since: int = NEVER
    """Up to then another server may have been in charge, or something was lost."""
    cause: str = ""
    proven: int = 0
    """The longest span of a lease that may be out."""
    not_before: int = NEVER
    """Nothing is granted before, whatever else is known."""
    last: int = 0
    """When the last new request was answered."""
    interval: int = 0
    """The longest sync interval known."""
    doubted: bool = False
    deleted: bool = False
    next_id: int = 0
    arrivals: int = 0
    """How many instances have arrived."""
    gap_since: int = NEVER
    """The last gap in the requests began at this time, or the first of several that count as one.
    Another server may have renewed each lease that had not ended by then..."""
    gap_until: int = NEVER
    """...to this time at the latest."""
    older_gap_since: int = NEVER
    older_gap_until: int = NEVER
    """The gap before that one, as long as an instance may be given up because of it."""
    due: int = NEVER
    """When something may come back to a pool next: then requests look for it, until all instances
    were seen."""
    collected: int = 0
    """How many instances they have seen; 0 if nothing is due."""
    next_due: int = LATEST
    """When something is due of those that were seen."""
    shares_at: int = NEVER
    """When the last request went on with the division."""
    visited: int = 0
    """How many instances this round of the division has visited, in the order of their arrival; 0
    if none is under way."""
    on_permits: int = 0
    """How many of these live on permits."""
    apart: bool = False
    """Whether some lived on permits in the round before: then the others have their own levels."""
    short_since: int = NEVER
    """Since when there has not been enough for everybody."""
    behind: float = 0.0
    """How far the clock of turns is behind `now`."""
    queue: list[Waiter] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)

    def follow(self, terms: Terms) -> None:
        """Has other terms. If these are of other bounds, all of them start over."""
        if self.has_bounds_of(terms):
            for bound, one in zip(self.bounds, terms.bounds, strict=True):
                bound.terms = one
        else:
            self.bounds = [BoundState(one) for one in terms.bounds]
            for bound in self.bounds:
                bound.start_over(self.now)
        self.terms = terms

    def falls_due(self, at: int) -> None:
        """Something may come back to a pool at this time."""
        self.due, self.next_due = min(self.due, at), min(self.next_due, at)

    def clear_round(self) -> None:
        """The next request begins another round of the division."""
        self.visited = self.on_permits = 0
        for bound in self.bounds:
            bound.sums = RoundSums()

    def has_bounds_of(self, terms: Terms) -> bool:
        """Whether these are terms of the same bounds."""
        kinds = [one.terms.slots for one in self.bounds]
        return self.terms.layout == terms.layout and kinds == [one.slots for one in terms.bounds]

    def resize(self) -> None:
        """Follows the number of slots in force."""
        for bound in self.bounds:
            bound.resize(self.now)

    @property
    def wholes(self) -> list[int]:
        """The units of each bound."""
        return [one.whole for one in self.bounds]

    @property
    def fair(self) -> list[Level]:
        """The levels if nothing were kept aside for permits."""
        return [one.fair for one in self.bounds]

    @property
    def levels(self) -> list[Level]:
        """The levels of those that do not live on permits."""
        return [one.level for one in self.bounds]

    @property
    def is_short(self) -> bool:
        """Whether some bound is less than what all need."""
        return any(one.fair.weight for one in self.bounds)

    def few_batches(self, bound: BoundState, record: Record) -> float:
        """A share of a bound that is worth fewer batches than this is of little use to an instance
        that needs more."""
        rates = [at for at, one in enumerate(self.bounds) if not one.terms.slots]
        if len(rates) <= 1:
            return FEW_BATCHES
        few = min(WHOLE_BATCHES, max(FEW_BATCHES, FEW_A_SECOND * bound.terms.period / 1000))
        holds = any(record.holdings[at].units for at in rates)
        return few if holds else few * FEW_WITHOUT_SHARE

    @property
    def longest_window(self) -> int:
        """The longest period of a rate."""
        return max((one.terms.period for one in self.bounds if not one.terms.slots), default=0)

    @property
    def turns_at(self) -> float:
        """The time by the clock of turns. It goes slower while whoever lives on permits and has
        waited longest is two periods late: where batches do not fit together, all of them are late,
        and none may lose its place for it."""
        return self.now - self.behind

    @property
    def told(self) -> Terms:
        """The terms as replies have them: with what is in force."""
        return replace(self.terms, bounds=tuple(map(self._told, self.bounds)))

    def _told(self, bound: BoundState) -> BoundTerms:
        in_force = bound.in_force(self.now)
        rising = bound.ramp.rate if in_force < bound.terms.capacity else 0.0
        return replace(bound.terms, in_force=in_force, rising=rising)


@dataclass(slots=True)
class Registry:
    """What one server process remembers of all limits: whether something of one may be out."""

    server: str
    since: int
    names: dict[str, int] = field(default_factory=dict)
    spans: dict[str, int] = field(default_factory=dict)
    """How long a lease of each can count."""
    now: int | None = None
    skew: int = 0

    def has_room(self, name: str) -> bool:
        """Whether a limit is among them, or may come. One that finds no room does without."""
        return name in self.names or len(self.names) < MAX_NAMES
