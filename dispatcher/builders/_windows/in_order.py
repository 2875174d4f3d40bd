"""Batches of messages that come in order of time: where each of them begins and ends. Pure.

Most messages come so, and then a batch is a run of them: nothing has to be looked up for each one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from dispatcher.builders._windows.duplicates import Identity


class WindowRun(NamedTuple):
    """Messages `begin` to `until`, without the last, of one batch."""

    begin: int
    until: int
    start: Any
    end: Any
    """The end of the window, not of the messages."""
    due: Any


def are_in_order(times: Sequence[Any]) -> bool:
    """Whether no time is before the one before it. There is one at least."""
    # To sort what is in order takes one comparison for each, and a fourth of the time of a loop in
    # C that calls a function for each.
    return bool(times[0] <= times[-1] and sorted(times) == list(times))


def runs(
    keys: Sequence[Any],
    times: Sequence[Any],
    nows: Sequence[Any],
    begin: int,
    *,
    end_of: Callable[[Any], Any],
    due_of: Callable[[Any, Any], Any],
    known: set[Identity],
) -> Iterator[WindowRun]:
    """The batches of messages from `begin` on, whose `times` and `nows` are in order. Its time is
    later than those of open batches. They end before messages of which one may be a duplicate, or
    may split its batch.

    * `end_of` a first time: where its window ends.
    * `due_of` a first arrival and that end: when the batch closes.
    * `known`: messages of closed batches.
    """
    length = len(times)
    latest = max([time for _, time in known]) if known else None
    while begin < length:
        start = times[begin]
        end = end_of(start)
        due = due_of(nows[begin], end)
        until = bisect_right(times, end, begin)
        if nows[until - 1] >= due:
            until = bisect_left(nows, due, begin, until)
            if until == begin or (until < length and times[until] == times[until - 1]):
                return
        if len(set(keys[begin:until])) < until - begin:
            return
        if latest is not None and start <= latest:
            identities = zip(keys[begin:until], times[begin:until], strict=True)
            if not known.isdisjoint(identities):
                return
        yield WindowRun(begin, until, start, end, due)
        begin = until
