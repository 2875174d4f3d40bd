"""The Context, which a handler is given in addition to its rows."""

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
"""The queries for which this process has logged that a batch has several subjects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRows:
    """The rows of one subject in a batch: `rows[start:end]`, or `rows.slice(start, end - start)` of
    a RecordBatch. They are in order of time.
    """

    subject: Any
    start: int
    end: int
    first: datetime | date | float | None
    """The earliest time of these rows."""
    last: datetime | date | float | None
    """The latest time of these rows."""
    key: str
    """A key that is the same each time these rows are sent, in this batch or by themselves."""
    late: bool
    """Whether later rows of the subject were sent before."""


Settle = Callable[[Any, Any, Iterable[Any] | None], None]
"""Takes an actual cost, and the subject or the rows that it belongs to."""


def _without_call(actual: Any, subject: Any, rows: Iterable[Any] | None) -> None:
    raise SettlementError(
        "this context belongs to no call of a handler: there is nothing to settle"
    )


@dataclass(frozen=True, slots=True)
class Context:
    """One batch on its way, for a handler that takes a second argument.

    `first` and `last` are its earliest and its latest time: an aware datetime for a timestamp, one
    without a zone for a timestamp_ntz, a date, or a number. None if the rows have no time.
    """

    query: str
    batch_id: int
    """The number of the micro-batch."""
    subject: Any
    """The subject of the rows, if all have the same. None in a batch of several subjects: see
    `subjects`, or give the sink pack=False. With order="global" it is the lane's name."""
    first: datetime | date | float | None
    last: datetime | date | float | None
    key: str
    """A key that is the same each time this batch is sent, also by another process: pass it on if
    the API accepts idempotency keys. Rows that are sent in no order make other batches in a replay:
    there the key is the same only for each attempt of the Batcher."""
    attempt: int
    """The number of the attempt: 1, and 2 when the Batcher tries the batch again."""
    late: bool = False
    """Whether later rows of its subjects were sent before. It holds for all subjects or for
    none."""
    reason: str = ""
    """Why the rows were not sent; for a handler of dead letters."""
    subjects: tuple[SubjectRows, ...] = ()
    """The rows of each subject, in the order of the rows. Empty where the rows of a subject do not
    lie together: with order="global", and without an order."""
    _settle: Settle = field(default=_without_call, init=False, repr=False, compare=False)

    def settle(
        self,
        actual: float | Mapping[str, float],
        *,
        subject: Any = None,
        rows: Iterable[Any] | None = None,
    ) -> None:
        """Give the actual cost of this batch, including its `batch_cost`: once it is known, or
        several times while an answer streams. With `subject`, one of `subjects` or its name, or
        `rows`, the very objects that the handler was given (their numbers with rows="arrow"), give
        the cost of these rows together.

        The last settlement of the same rows counts when the batch has ended; until then the batch
        counts at least as much as it was charged. Dimensions that were never named count as
        estimated. Each attempt is charged and settled by itself.

        Raises ArgumentError for a cost that is not possible, and SettlementError if the batch has
        ended, or does not have these rows. Thread-safe.
        """
        self._settle(actual, subject, rows)

    def __reduce__(self) -> tuple[Callable[..., Context], tuple[type[Context], dict[str, Any]]]:
        # In another process there is no call to settle.
        facts = {one.name: getattr(self, one.name) for one in self._facts() if one.init}
        return _restored, (type(self), facts)

    def _facts(self) -> Iterable[Field[Any]]:
        """Return the fields that describe this batch."""
        return fields(self)


def _restored(kind: type[Context], facts: dict[str, Any]) -> Context:
    return kind(**{"subject": None, **facts})


def settled_by(context: Context, settle: Settle) -> Context:
    """Return `context`, whose settlements are passed to `settle`."""
    object.__setattr__(context, "_settle", settle)
    return context


class ContextOfSeveral(Context):
    """The context of a batch of several subjects. When a handler of a query reads its subject for
    the first time in a process, a warning is logged: the handler may expect batches of one
    subject."""

    __slots__ = ()

    @property
    def subject(self) -> None:
        if self.query not in _hinted:
            _hinted.add(self.query)
            _log.warning(
                "a handler%s has read context.subject, which is None in a batch of several "
                "subjects: use context.subjects, which has the rows of each subject, or give the "
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
    """Return a key of `facts`, which is the same in each process.

    >>> key_of("orders", 7, "meter-1") == key_of("orders", 7, "meter-1")
    True
    """
    text = "\x1f".join(map(repr, facts)).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()
