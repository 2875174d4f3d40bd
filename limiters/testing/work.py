"""What a simulated instance has to do: how much waits, and in what pieces it goes."""

from __future__ import annotations

import math
from typing import Protocol


class Work(Protocol):
    """Told the time since it began, says what waits; told what went, takes it off."""

    piece: float
    """What the next piece costs."""

    def waiting(self, now: float) -> float:
        """The cost that waits."""
        ...

    def went(self, cost: float, now: float) -> None:
        """A piece was sent."""
        ...


class Backlog:
    """So much work that it never ends."""

    def __init__(self, piece: float) -> None:
        self.piece = piece

    def waiting(self, now: float) -> float:
        """Endless."""
        return math.inf

    def went(self, cost: float, now: float) -> None:
        """Nothing changes."""


class Trickle:
    """Pieces that come at a steady `rate`, in cost a second."""

    def __init__(self, piece: float, rate: float) -> None:
        self.piece = piece
        self.rate = rate
        self.sent = 0.0

    def waiting(self, now: float) -> float:
        """What has come and was not sent."""
        return max(0.0, math.floor(now * self.rate / self.piece) * self.piece - self.sent)

    def went(self, cost: float, now: float) -> None:
        """One less."""
        self.sent += cost


class OnAndOff:
    """A backlog for `on` seconds, then nothing for `off`, over and over."""

    def __init__(self, piece: float, on: float, off: float, start: float = 0.0) -> None:
        self.piece = piece
        self.on = on
        self.off = off
        self.start = start

    def waiting(self, now: float) -> float:
        """Endless or nothing."""
        return math.inf if (now - self.start) % (self.on + self.off) < self.on else 0.0

    def went(self, cost: float, now: float) -> None:
        """Nothing changes."""


class Dear:
    """One dear piece every `every` seconds; `done` says when each was sent."""

    def __init__(self, piece: float, every: float, start: float = 0.0) -> None:
        self.piece = piece
        self.every = every
        self.next = start
        self.done: list[tuple[float, float]] = []
        """(when it was there, when it was sent)."""

    def waiting(self, now: float) -> float:
        """Nothing, until the next is there."""
        return self.piece if now >= self.next else 0.0

    def went(self, cost: float, now: float) -> None:
        """The next one comes `every` seconds later."""
        self.done.append((self.next, now))
        self.next = now + self.every
