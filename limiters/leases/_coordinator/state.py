"""What the coordinator stores: of the limit, of each instance, and of the server. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from limiters.leases._coordinator.shares import Level
from limiters.leases._format import MAX_NAMES, MIN_CAPACITY, NEVER, UNITS, WEIGHT_SCALE
from limiters.leases._ledger import Ledger
from limiters.leases._messages import Terms


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
class Permit:
    """The last permit of an instance, until its next request reports how it was used."""

    number: int = 0
    at: int = 0
    """The stamp of its entry in the pool's ledger."""
    cost: float = 0.0
    stayed: float = 0.0
    wave: int = 0


@dataclass(slots=True)
class Record:
    """What is stored of one instance. Amounts are in units, times those of the coordinator."""

    seq: int = 0
    born: int = 0
    units: int = 0
    until: int = 0
    """When its lease ends."""
    gone: int = 0
    """When it is given up."""
    seen: int = 0
    interval: int = 0
    need: int = 0
    weight: int = WEIGHT_SCALE
    piece: float = 0.0
    ask: float = 0.0
    ask_since: int = 0
    gathers: bool = False
    turn: float = 0.0
    """When its next permit is due, by the clock of turns."""
    fair: float = 0.0
    """What its fair share was worth when its turn was last computed; 0 as long as it is new."""
    permit: Permit = field(default_factory=Permit)
    spent: float = 0.0
    reserved: float = 0.0
    evicted: bool = False
    counted: bool = False
    """Whether the totals of its last request were counted."""
    share: int = 0
    label: str = ""
    given: Ledger = field(default_factory=Ledger)
    """What came along with its last grant. A store may lose it."""
    granted: int = 0
    """How much that grant was; 0 if nothing came along."""

    @property
    def given_is_lost(self) -> bool:
        """Whether something came along with the last grant, and it is not known what."""
        return self.granted > 0 and not self.given.entries


@dataclass(slots=True, order=True)
class Waiter:
    """One who waits for a permit, as the header keeps it. In order of turns."""

    later: bool
    """Whether it lives on a share and only asks for more: after all who live on permits."""
    turn: float
    since: int
    instance: str
    ask: float = field(compare=False)
    silent: int = field(compare=False)
    """When it loses its place, unless it asks again."""
    fair: float = field(compare=False)
    """What its fair share is worth."""


@dataclass(slots=True)
class Limit:
    """The limit itself: what a hash keeps, beside a record for each instance."""

    server: str
    nonce: str
    terms: Terms
    now: int
    """The coordinator's time: as much of the server's clock as was confirmed."""
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
    ramp: Ramp = field(default_factory=Ramp)
    peak: float = 0.0
    """The most that an instance may have been told was in force, before an operator changed it."""
    peak_until: int = NEVER
    """Up to then it may have spent on that, and that counts."""
    pool: int = UNITS
    ledger: Ledger = field(default_factory=Ledger)
    """Spending on what the pool holds, permits included."""
    returning: list[tuple[int, int]] = field(default_factory=list)
    """(when, how much) comes back to the pool without its spending being known."""
    stayed: float = 1.0
    """The share of the pool of this wave that was not handed over since."""
    wave: int = 0
    next_id: int = 0
    kept_until: int = NEVER
    """No instance is given up before, whatever its record says."""
    due: int = NEVER
    """When the next one may have to be given up, or something comes back."""
    shares_at: int = NEVER
    fair: Level = field(default_factory=Level)
    """The level if nothing were kept aside for permits."""
    level: Level = field(default_factory=Level)
    short_since: int = NEVER
    """Since when there has not been enough for everybody."""
    spare: float = 0.0
    """How much more than it wants an instance may hold, as a share of that, as nobody is short."""
    needs: int = 0
    behind: float = 0.0
    """How far the clock of turns is behind `now`."""
    queue: list[Waiter] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)

    @property
    def in_force(self) -> float:
        """The capacity in force."""
        return self.ramp.in_force(self.terms.capacity, self.now)

    @property
    def most_in_force(self) -> float:
        """The most that any spending that counts may have been based on."""
        return max(self.in_force, self.peak if self.now < self.peak_until else 0.0)

    @property
    def turns_at(self) -> float:
        """The time by the clock of turns. It goes slower while whoever lives on permits and has
        waited longest is two periods late: where batches do not fit together, all of them are late,
        and none may lose its place for it."""
        return self.now - self.behind

    @property
    def worth(self) -> float:
        """What one unit is worth."""
        return self.in_force / UNITS


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
