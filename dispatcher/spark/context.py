"""What a handler is given in addition to its rows."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import date, datetime
from typing import Any

from limiters.errors import SettlementError

_log = logging.getLogger("dispatcher.spark")
_hinted: set[str] = set()
"""The queries of which this process has logged that a batch has no single subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRows:
    """The rows of one subject in a batch: `rows[start:end]`, or `rows.slice(start, end - start)` of
    a RecordBatch. They are in order of time.
    """

    subject: Any
    start: int
    end: int
    first: datetime | date | float | None
    """Their earliest time."""
    last: datetime | date | float | None
    """Their latest time."""
    key: str
    """The same each time these rows are sent, in this batch or by themselves."""
    late: bool
    """Whether later rows of the subject were sent already."""


Settle = Callable[[Any, Any, Iterable[Any] | None], None]
"""Takes a true cost, and the subject or the rows whose it is."""


def _without_call(actual: Any, subject: Any, rows: Iterable[Any] | None) -> None:
    raise SettlementError(
        "this context belongs to no call of a handler: there is nothing to settle"
    )


@dataclass(frozen=True, slots=True)
class Context:
    """One batch on its way, for a handler that takes a second argument.

    `first` and `last` are its earliest and its latest time: an aware datetime for a timestamp,
    one without a zone for a timestamp_ntz, a date, or the number that it is. None of rows that
    have no time.
    """

    query: str
    batch_id: int
    """The micro-batch."""
    subject: Any
    """Whose rows they are, if all are of one subject. None in a batch of several: see `subjects`,
    or give the sink pack=False. With order="global" the lane's name."""
    first: datetime | date | float | None
    last: datetime | date | float | None
    key: str
    """The same each time this batch is sent, whoever sends it: hand it on, if the API knows
    idempotency keys. Rows that are sent in no order are not the same batches in a replay: there
    it is the same for each attempt of the Batcher only."""
    attempt: int
    """1, and 2 when it is tried again by the Batcher."""
    late: bool = False
    """Whether later rows of its subjects were sent already: of all of them, or of none."""
    reason: str = ""
    """For a handler of dead letters: why."""
    subjects: tuple[SubjectRows, ...] = ()
    """Which rows are whose, in the order of the rows. Empty where the rows of a subject do not lie
    together: with order="global", and without an order."""
    _settle: Settle = field(default=_without_call, init=False, repr=False, compare=False)

    def settle(
        self,
        actual: float | Mapping[str, float],
        *,
        subject: Any = None,
        rows: Iterable[Any] | None = None,
    ) -> None:
        """Says what this batch costs in truth, its `batch_cost` included: once that is known, or
        several times while an answer streams. With `subject`, one of `subjects` or its name, or
        `rows`, the very objects that the handler was given (their numbers with rows="arrow"), what
        these rows cost together.

        The last settlement of the same rows counts when the batch has ended; until then it counts
        for no less than it was charged. Dimensions that are not named count as estimated. Each
        attempt is charged, and settled, by itself.

        Raises ArgumentError for a cost that is not possible, and SettlementError if the batch has
        ended, or has not these rows. Thread-safe.
        """
        self._settle(actual, subject, rows)

    def __reduce__(self) -> tuple[Callable[..., Context], tuple[type[Context], dict[str, Any]]]:
        # Another process has the facts, and not the call.
        told = {one.name: getattr(self, one.name) for one in self._facts() if one.init}
        return _restored, (type(self), told)

    def _facts(self) -> Iterable[Field[Any]]:
        """The fields that say something of this batch."""
        return fields(self)


def _restored(kind: type[Context], told: dict[str, Any]) -> Context:
    return kind(**{"subject": None, **told})


def settled_by(context: Context, settle: Settle) -> Context:
    """`context` as that of a call that `settle` settles."""
    object.__setattr__(context, "_settle", settle)
    return context


class ContextOfSeveral(Context):
    """One of a batch of several subjects. When a handler of a query reads its subject for the first
    time in a process, the log says that there is none: it may expect batches of one subject."""

    __slots__ = ()

    @property
    def subject(self) -> None:
        if self.query not in _hinted:
            _hinted.add(self.query)
            _log.warning(
                "a handler%s has read context.subject, which is None in a batch of several "
                "subjects: take context.subjects, which says which rows are whose, or give the "
                "sink pack=False",
                f" of query {self.query!r}" if self.query else "",
                extra={"happening": "subject-of-several", "query": self.query},
            )
        return None

    @subject.setter
    def subject(self, value: None) -> None:
        pass  # there is none

    def __repr__(self) -> str:
        shown = {one.name: getattr(self, one.name) for one in self._facts() if one.repr}
        return f"Context({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def _facts(self) -> Iterable[Field[Any]]:
        return (one for one in fields(self) if one.name != "subject")


def key_of(*facts: object) -> str:
    """A key that says who, what and when, the same in each process.

    >>> key_of("orders", 7, "meter-1") == key_of("orders", 7, "meter-1")
    True
    """
    told = "\x1f".join(map(repr, facts)).encode()
    return hashlib.blake2b(told, digest_size=16).hexdigest()
