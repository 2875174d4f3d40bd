"""The open batches of an event-time builder, and which of them covers a time (laws E1, E2)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator
from typing import Any

from dispatcher.builders._times import Instant

CHUNK = 512
"""Number of windows in one list: with one list for all, opening a window would move as many
pointers as there are windows."""


class Window:
    """An open batch: [start, end], or [start, end) if it was shortened.

    Its messages, in order of arrival: `times` by key, and in the same order `arrivals` and
    `messages`. A record for each would be easier to read, but costs time and memory for every
    message.
    """

    __slots__ = ("arrivals", "due", "end", "messages", "shortened", "start", "times")

    def __init__(self, start: Instant, end: Instant, *, shortened: bool = False) -> None:
        self.start = start
        self.end = end
        self.shortened = shortened
        self.times: dict[Hashable, Any] = {}
        self.arrivals: list[Any] = []
        self.messages: list[Any] = []
        self.due: Any = None
        """When it closes; None once it is closed."""

    def covers(self, time: Any) -> bool:
        """Whether a message of that time belongs here (E1)."""
        end = self.end
        return self.start <= time < end or (time == end and not self.shortened)

    def put(self, key: Hashable, time: Any, arrival: Any, message: Any) -> None:
        """Add a message, of a key that it does not contain."""
        self.times[key] = time
        self.arrivals.append(arrival)
        self.messages.append(message)

    def part(self, cut: Any, later: Window) -> None:
        """Move the messages from `cut` on to `later`, and end there."""
        times, arrivals, messages = self.times, self.arrivals, self.messages
        self.times, self.arrivals, self.messages = {}, [], []
        self.end, self.shortened = cut, True
        for (key, time), arrival, message in zip(times.items(), arrivals, messages, strict=True):
            (self if time < cut else later).put(key, time, arrival, message)

    def in_order(self) -> list[Any]:
        """Return its messages in order of time; of equal times in order of arrival."""
        times = list(self.times.values())
        order = sorted(range(len(times)), key=times.__getitem__)
        return [self.messages[index] for index in order]


class Windows:
    """The open batches in order of time; they never overlap."""

    def __init__(self) -> None:
        self._firsts: list[Any] = []
        self._starts: list[list[Any]] = []
        self._windows: list[list[Window]] = []

    def __iter__(self) -> Iterator[Window]:
        for chunk in self._windows:
            yield from chunk

    def __len__(self) -> int:
        return sum(map(len, self._windows))

    @property
    def last_end(self) -> Any:
        """Where the last window ends: none covers a later time."""
        return self._windows[-1][-1].end if self._windows else -math.inf

    def at(self, time: Any) -> Window | None:
        """Return the window that covers `time`."""
        chunk = bisect_right(self._firsts, time) - 1
        if chunk < 0:
            return None
        window = self._windows[chunk][bisect_right(self._starts[chunk], time) - 1]
        return window if window.covers(time) else None

    def start_after(self, time: Any) -> Any:
        """Return where the next window begins, or None."""
        chunk = bisect_right(self._firsts, time) - 1
        if chunk >= 0:
            starts = self._starts[chunk]
            place = bisect_right(starts, time)
            if place < len(starts):
                return starts[place]
        return self._firsts[chunk + 1] if chunk + 1 < len(self._firsts) else None

    def put(self, window: Window) -> None:
        """Add a window that overlaps none."""
        chunk = max(0, bisect_right(self._firsts, window.start) - 1)
        if not self._starts:
            self._firsts.append(window.start)
            self._starts.append([])
            self._windows.append([])
        starts, windows = self._starts[chunk], self._windows[chunk]
        place = bisect_right(starts, window.start)
        starts.insert(place, window.start)
        windows.insert(place, window)
        self._firsts[chunk] = starts[0]
        if len(starts) > CHUNK:
            half = CHUNK // 2
            self._firsts.insert(chunk + 1, starts[half])
            self._starts.insert(chunk + 1, starts[half:])
            self._windows.insert(chunk + 1, windows[half:])
            del starts[half:], windows[half:]

    def remove(self, window: Window) -> None:
        chunk = bisect_right(self._firsts, window.start) - 1
        starts, windows = self._starts[chunk], self._windows[chunk]
        place = bisect_left(starts, window.start)
        del starts[place], windows[place]
        if starts:
            self._firsts[chunk] = starts[0]
        else:
            del self._firsts[chunk], self._starts[chunk], self._windows[chunk]
