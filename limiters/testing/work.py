"""The work of a simulated instance: how much waits, and the pieces in which it is sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol, runtime_checkable

from limiters._costs import AnyCost, Costs


class Work(Protocol):
    """Work that comes over time. `waiting` returns the cost that waits, from which sent pieces are
    removed."""

    @property
    def piece(self) -> AnyCost:
        """The cost of the next piece."""
        ...

    def waiting(self, now: float) -> AnyCost:
        """Return the cost that waits."""
        ...

    def went(self, cost: AnyCost, now: float) -> None:
        """Note that a piece was sent."""
        ...


@runtime_checkable
class LastingWork(Protocol):
    """Work whose calls take time."""

    @property
    def lasts(self) -> float:
        """The seconds for which the call of the next piece runs."""
        ...


@runtime_checkable
class SettledWork(Protocol):
    """Work whose actual cost is reported during its call, or at its end."""

    @property
    def actual(self) -> Sequence[AnyCost]:
        """The costs that the call of the next piece reports while it runs, in order. The last one
        is the actual cost."""
        ...


class Backlog:
    """Work that never ends."""

    def __init__(self, piece: float) -> None:
        self.piece = piece

    def waiting(self, now: float) -> float:
        """Return infinity at any time."""
        return math.inf

    def went(self, cost: AnyCost, now: float) -> None:
        """Do nothing, since the backlog never ends."""


class Trickle:
    """Pieces that come at a steady `rate`, in cost a second."""

    def __init__(self, piece: float, rate: float) -> None:
        self.piece = piece
        self.rate = rate
        self.sent = 0.0

    def waiting(self, now: float) -> float:
        """Return the cost that has come and was not sent."""
        return max(0.0, math.floor(now * self.rate / self.piece) * self.piece - self.sent)

    def went(self, cost: AnyCost, now: float) -> None:
        """Subtract the piece from the cost that waits."""
        self.sent += self.piece


class OnAndOff:
    """A backlog for `on` seconds, then nothing for `off`, over and over."""

    def __init__(self, piece: float, on: float, off: float, start: float = 0.0) -> None:
        self.piece = piece
        self.on = on
        self.off = off
        self.start = start

    def waiting(self, now: float) -> float:
        """Return infinity while the work is on, and zero while it is off."""
        return math.inf if (now - self.start) % (self.on + self.off) < self.on else 0.0

    def went(self, cost: AnyCost, now: float) -> None:
        """Do nothing, since the backlog never ends."""


class Dear:
    """One expensive piece every `every` seconds; `done` has the time when each was sent."""

    def __init__(self, piece: float, every: float, start: float = 0.0) -> None:
        self.piece = piece
        self.every = every
        self.next = start
        self.done: list[tuple[float, float]] = []
        """Pairs of the times when a piece came, and when it was sent."""

    def waiting(self, now: float) -> float:
        """Return zero until the next piece comes."""
        return self.piece if now >= self.next else 0.0

    def went(self, cost: AnyCost, now: float) -> None:
        """Note that the piece was sent. The next one comes `every` seconds later."""
        self.done.append((self.next, now))
        self.next = now + self.every


class MixedCalls:
    """A backlog of calls, each of another cost and duration, while `on(now)`.

    * `costs`: one of these is drawn for each call; numbers if the limit has one dimension.
    * `lasting`: the shortest and the longest duration, in seconds.
    * `most`: how many wait at a time.

    >>> costs = [{"requests": 1, "tokens": 60}, {"requests": 1, "tokens": 400}]
    >>> work = MixedCalls(costs, Random(1))
    >>> work.piece, work.waiting(now=0.0)
    (Costs(requests=1, tokens=60), Costs(requests=1000, tokens=230000))
    """

    def __init__(
        self,
        costs: Sequence[Mapping[str, float] | float],
        random: Random,
        *,
        lasting: tuple[float, float] = (0.0, 0.0),
        most: int = 1000,
        on: Callable[[float], bool] = lambda now: True,
    ) -> None:
        self._costs: list[AnyCost] = [
            Costs(one) if isinstance(one, Mapping) else float(one) for one in costs
        ]
        self._random = random
        self.lasting = lasting
        self._most = most
        self._on = on
        self._all: AnyCost = sum(self._costs) * (most / len(costs))
        self._draw()

    def _draw(self) -> None:
        self.piece: AnyCost = self._random.choice(self._costs)
        self.lasts = self._random.uniform(*self.lasting)

    def waiting(self, now: float) -> AnyCost:
        """Return the average cost of the calls that wait."""
        return self._all if self._on(now) else self._all * 0

    def went(self, cost: AnyCost, now: float) -> None:
        """Draw the next call."""
        self._draw()


class Estimated:
    """Work whose pieces are estimates of the costs of their calls.

    * `parts`: the actual cost is the estimate times one of these.
    * `lasting`: the shortest and the longest duration of a call, in seconds.
    * `streams`: the part of the calls that report costs while they run, several times and not in
      order.

    >>> work = Estimated(Backlog(100), Random(1), parts=[0.2])
    >>> work.piece, work.actual
    (100, (20.0,))
    """

    def __init__(
        self,
        work: Work,
        random: Random,
        *,
        parts: Sequence[float],
        lasting: tuple[float, float] = (0.0, 0.0),
        streams: float = 0.0,
    ) -> None:
        self._work = work
        self._random = random
        self._parts = parts
        self._lasting = lasting
        self._streams = streams
        self._draw()

    def _draw(self) -> None:
        self.lasts = self._random.uniform(*self._lasting)
        actual = self.piece * self._random.choice(self._parts)
        reported = [actual]
        if self._streams and self._random.random() < self._streams:
            reported = [actual * self._random.random() for _ in range(3)] + [actual, actual]
        self.actual: tuple[AnyCost, ...] = tuple(reported)

    @property
    def piece(self) -> AnyCost:
        """The estimate of the next piece."""
        return self._work.piece

    def waiting(self, now: float) -> AnyCost:
        """Return the estimated cost that waits."""
        return self._work.waiting(now)

    def went(self, cost: AnyCost, now: float) -> None:
        """Draw the next call."""
        self._work.went(cost, now)
        self._draw()
