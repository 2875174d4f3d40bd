"""What the scripts of a gate reply; see lua/gate.lua."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dispatcher.registration._model.release import Registration
from dispatcher.registration._model.reports import Report
from dispatcher.registration._model.written import message_of, registration_of


class Piece:
    """A release, or the part of one that is in one reply."""

    __slots__ = ("continues", "entity", "messages", "registration")

    def __init__(
        self, entity: str, registration: Registration | None, *, continues: bool = False
    ) -> None:
        self.entity = entity
        self.registration = registration
        self.messages: list[Any] = []
        self.continues = continues
        """Whether it has further messages of the release before it."""


class Portion:
    """What one reply has of an agenda."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.is_last = False


class GateReply:
    """One reply."""

    def __init__(self, texts: Iterator[str]) -> None:
        self.generation, self.newest, self.sequence = (int(next(texts)) for _ in range(3))
        self.agenda, self.more, self.status = next(texts), bool(next(texts)), next(texts)
        count = int(next(texts))
        self.changed = [next(texts) for _ in range(count)] if count >= 0 else None
        """Entities that have changed; None: any may have."""
        self.reports: list[Report] = []
        self.free: list[Piece] = []
        self.portions: list[Portion] = []
        self.links: dict[str, str] = {}
        self.taken = 0
        """How many of the registrations that were asked for are carried out."""
        self.pending = 0
        self.answered = 0
        """How many of the entities that were asked for were looked up."""
        self._read(texts)

    def _read(self, texts: Iterator[str]) -> None:
        into = self.free
        for kind in texts:
            if kind == "links":
                names = json.loads(next(texts))
                self.links = dict(zip(names[::2], names[1::2], strict=True))
            elif kind == "report":
                name, entity = next(texts), next(texts)
                registrations, metadata, telemetry = (int(next(texts)) for _ in range(3))
                reason = next(texts)
                self.reports.append(
                    Report(name, entity, registrations, metadata, telemetry, reason)
                )
            elif kind == "release":
                entity, record = next(texts), next(texts)
                into.append(Piece(entity, registration_of(entity, record) if record else None))
            elif kind == "messages":
                if not into:
                    into.append(Piece("", None, continues=True))
                count = int(next(texts))
                into[-1].messages += [message_of(next(texts)) for _ in range(count)]
            elif kind == "portion":
                self.portions.append(Portion())
                into = self.portions[-1].pieces
            elif kind == "done":
                self.portions[-1].is_last = True
            elif kind == "taken":
                self.taken = int(next(texts))
            elif kind == "pending":
                self.pending = int(next(texts))
            elif kind == "answered":
                self.answered = int(next(texts))


def read(answer: list[Any]) -> GateReply:
    """What a reply says."""
    return GateReply(map(text, answer))


def text(value: str | bytes | int) -> str:
    """A client that was handed in may decode."""
    return value.decode() if isinstance(value, bytes) else str(value)
