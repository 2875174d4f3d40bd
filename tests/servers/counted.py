"""The limits of an API and the calls of its clients, counted without any code of the project.

Each call has two times: when it arrived, and when its client says that it began. A real API sees
the first alone. The second is what the laws are about: between the two a thread or a process may
be switched out, on a busy machine for any time. Both are judged.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Window:
    """A limit: no more than `most` of one dimension in any `seconds`."""

    dimension: str
    most: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.most:,g} {self.dimension} per {self.seconds:g} s"


@dataclass(frozen=True)
class Allowed:
    """Limits of an API: windows, and a number of calls in flight."""

    windows: tuple[Window, ...]
    in_flight: float = math.inf
    longest: float = math.inf
    """Seconds that a call may last. What lasts longer is in flight for so long and no longer."""

    @classmethod
    def of(cls, limits: Mapping[str, Mapping[str, Any]]) -> Allowed:
        """From a plan's limits, by dimension.

        >>> rate = {"rate": 60, "per": 6, "also": [[10, 1]]}
        >>> allowed = Allowed.of({"requests": rate, "calls": {"in_flight": 20}})
        >>> [str(window) for window in allowed.windows], allowed.in_flight
        (['60 requests per 6 s', '10 requests per 1 s'], 20)
        """
        windows, in_flight, longest = [], math.inf, math.inf
        for dimension, one in limits.items():
            if "in_flight" in one:
                in_flight = one["in_flight"]
                longest = one.get("max_operation_time", math.inf)
            else:
                for most, seconds in [[one["rate"], one["per"]], *one.get("also", [])]:
                    windows.append(Window(dimension, most, seconds))
        return cls(tuple(windows), in_flight, longest)


@dataclass(frozen=True)
class Call:
    """One call, by the clock that all processes of the machine share. Seconds."""

    who: str
    began: float
    """The time that its client says."""
    arrived: float
    ended: float
    """Infinite as long as it has not ended; when it arrived, if it was refused."""
    costs: Mapping[str, float]
    refused: bool = False


class Meter:
    """Arrivals in one window, by which an API refuses calls."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._entries: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def left(self, now: float) -> float:
        """The cost that may still arrive now."""
        while self._entries and self._entries[0][0] <= now - self.window.seconds:
            self._sum -= self._entries.popleft()[1]
        return self.window.most - self._sum

    def room_in(self, cost: float, now: float) -> float:
        """Seconds until there is room for `cost`; 0 if there is."""
        room = self.left(now)
        for at, freed in self._entries:
            if room >= cost:
                break
            room += freed
            wait = at + self.window.seconds - now
            if room >= cost:
                return wait
        return 0.0 if room >= cost else math.inf

    def add(self, cost: float, now: float) -> None:
        self._entries.append((now, cost))
        self._sum += cost


@dataclass(frozen=True)
class Worst:
    """The fullest window of one kind, over all instants at which something was added."""

    window: Window
    most: float
    over: int
    windows: int

    def __str__(self) -> str:
        return f"{self.window}: at most {self.most:g}, {self.over} of {self.windows} windows over"


def worst(window: Window, spent: Iterable[tuple[float, float]]) -> Worst:
    """Judges each window that ends where something was spent: an open start, a closed end."""
    recent: deque[tuple[float, float]] = deque()
    inside = most = 0.0
    over = count = 0
    for at, cost in sorted(spent):
        while recent and recent[0][0] <= at - window.seconds:
            inside -= recent.popleft()[1]
        recent.append((at, cost))
        inside += cost
        most, count = max(most, inside), count + 1
        over += inside > window.most
    return Worst(window, most, over, count)


def most_in_flight(spans: Iterable[tuple[float, float]]) -> int:
    """The most of them at any instant. One that ends where another begins has ended.

    >>> most_in_flight([(0, 2), (1, 3), (2, 4)])
    2
    """
    ends: list[float] = []
    most = 0
    for begin, end in sorted(spans):
        while ends and ends[0] <= begin:
            heapq.heappop(ends)
        heapq.heappush(ends, end)
        most = max(most, len(ends))
    return most


@dataclass(frozen=True)
class Judgement:
    """A summary of the calls that an API has seen."""

    by_began: tuple[Worst, ...]
    by_arrived: tuple[Worst, ...]
    in_flight: int
    """The largest number in flight, from when they began."""
    in_flight_here: int
    """The largest number in flight, from when they arrived."""
    allowed: Allowed
    refused: int
    latest: float
    """The longest time between the two."""
    calls: int

    @property
    def over(self) -> int:
        """How many windows were over, and instants with too many calls counted as one."""
        return sum(one.over for one in self.by_began) + (self.in_flight > self.allowed.in_flight)

    @property
    def holds(self) -> bool:
        """Whether nothing was over, by when the calls began."""
        return not self.over

    def __str__(self) -> str:
        return "; ".join(
            [
                *map(str, self.by_began),
                f"in flight at most {self.in_flight} of {self.allowed.in_flight:g}",
                f"{self.calls} calls, {self.refused} refused, the latest {self.latest:.3f} s late",
            ]
        )


def judged(calls: Sequence[Call], allowed: Allowed) -> Judgement:
    """Refused calls count too: as a client sees it, it was a call."""

    def over(at: str) -> tuple[Worst, ...]:
        return tuple(
            worst(window, [(getattr(one, at), one.costs.get(window.dimension, 0)) for one in calls])
            for window in allowed.windows
        )

    def in_flight_by(at: str) -> int:
        return most_in_flight(
            (getattr(one, at), min(one.ended, one.began + allowed.longest))
            for one in calls
            if one.began + allowed.longest > one.arrived
        )

    return Judgement(
        by_began=over("began"),
        by_arrived=over("arrived"),
        in_flight=in_flight_by("began"),
        in_flight_here=in_flight_by("arrived"),
        allowed=allowed,
        refused=sum(one.refused for one in calls),
        latest=max((one.arrived - one.began for one in calls), default=0.0),
        calls=len(calls),
    )


def used(calls: Iterable[Call], dimension: str, begin: float, end: float) -> float:
    """The cost of calls that were served and began in [begin, end)."""
    return sum(
        one.costs.get(dimension, 0) for one in calls if begin <= one.began < end and not one.refused
    )


def busy(calls: Iterable[Call], begin: float, end: float) -> float:
    """How many were in flight here on average, from `begin` to `end`."""
    spans = ((max(one.arrived, begin), min(one.ended, end)) for one in calls if not one.refused)
    return sum(max(0.0, until - since) for since, until in spans) / (end - begin)
