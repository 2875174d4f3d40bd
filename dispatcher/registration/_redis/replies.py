"""Replies of the scripts of a gate; see lua/gate.lua."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dispatcher.registration._model.release import Release
from dispatcher.registration._model.reports import CORRUPT, RELEASED, Amounts, Report
from dispatcher.registration._model.written import (
    UnreadableError,
    registration_of,
    sealed_message_of,
)

_METADATA, _TELEMETRY, _OFFERED = "m", "t", ""


class Piece:
    """A release, or the part of one that is in one reply."""

    __slots__ = ("continues", "entity", "held", "record", "texts")

    def __init__(
        self,
        entity: str,
        record: str,
        held: Amounts,
        *,
        continues: bool = False,
    ) -> None:
        self.entity = entity
        self.record = record
        self.held = held
        """The amounts of it that were held."""
        self.texts: list[tuple[str, str | bytes]] = []
        """The stored messages, and the kind of each."""
        self.continues = continues
        """Whether it continues the release before it."""

    def opened(self) -> tuple[Release, list[Report]]:
        """Return the release, with all messages that can be read."""
        registration, is_lost = None, False
        if self.record:
            try:
                registration = registration_of(self.entity, self.record)
            except UnreadableError:
                is_lost = True
        messages: list[Any] = []
        readable = {_METADATA: 0, _TELEMETRY: 0, _OFFERED: 0}
        for kind, text in self.texts:
            try:
                messages.append(sealed_message_of(self.entity, text))
            except UnreadableError:
                continue
            readable[kind] += 1
        _, metadata, telemetry = self.held
        lost = Amounts(
            int(is_lost),
            max(0, metadata - readable[_METADATA]),
            max(0, telemetry - readable[_TELEMETRY]),
        )
        release = Release(self.entity, registration, tuple(messages))
        return release, self._reports(lost)

    def _reports(self, lost: Amounts) -> list[Report]:
        registrations, metadata, telemetry = self.held
        out = Amounts(
            max(0, registrations - lost.registrations),
            metadata - lost.metadata,
            telemetry - lost.telemetry,
        )
        reports = [Report(RELEASED, self.entity, *out)] if any(out) else []
        if any(lost):
            reports.append(Report(CORRUPT, self.entity, *lost, "it cannot be read any more"))
        return reports


class Portion:
    """The part of an agenda that is in one reply."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.is_last = False


class GateReply:
    """The decoded reply of one script."""

    def __init__(self, answer: Iterator[str | bytes]) -> None:
        texts = map(text, answer)
        self.generation, self.newest, self.sequence = (int(next(texts)) for _ in range(3))
        self.agenda, self.more, self.status = next(texts), bool(next(texts)), next(texts)
        count = int(next(texts))
        self.changed = [next(texts) for _ in range(count)] if count >= 0 else None
        """Entities that have changed; None if any may have."""
        self.reports: list[Report] = []
        self.free: list[Piece] = []
        self.portions: list[Portion] = []
        self.links: dict[str, str] = {}
        self.taken = 0
        """Number of the requested registrations that were carried out."""
        self.pending = 0
        self.answered = 0
        """Number of the requested entities that were looked up."""
        self.wrong = 0
        """The position of a key that is of another type; 0 if there is none."""
        self._read(answer, texts)

    def _read(self, answer: Iterator[str | bytes], texts: Iterator[str]) -> None:
        into = self.free
        for kind in texts:
            if kind == "links":
                names = json.loads(next(texts))
                self.links = dict(zip(names[::2], names[1::2], strict=True))
            elif kind == "report":
                name, entity = next(texts), next(texts)
                registrations, metadata, telemetry = (_count(next(texts)) for _ in range(3))
                reason = next(texts)
                self.reports.append(
                    Report(name, entity, registrations, metadata, telemetry, reason)
                )
            elif kind == "release":
                entity, record = next(texts), next(texts)
                held = Amounts(*(_count(next(texts)) for _ in range(3)))
                into.append(Piece(entity, record, held))
            elif kind == "messages":
                if not into:
                    into.append(Piece("", "", Amounts(), continues=True))
                what, count = next(texts), _count(next(texts))
                if what not in (_METADATA, _TELEMETRY, _OFFERED):
                    raise ValueError(f"messages are of no kind {what!r}")
                into[-1].texts += [(what, next(answer)) for _ in range(count)]
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
            elif kind == "wrong":
                self.wrong = int(next(texts))


def read(answer: list[Any]) -> GateReply:
    """Decode a reply. UnreadableError if the stored data behind it was damaged."""
    try:
        return GateReply(iter(answer))
    except Exception as error:
        raise UnreadableError from error


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(f"{number} is no count")
    return number


def text(value: str | bytes | int) -> str:
    """Return a text: a client that was passed in may decode replies itself."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
