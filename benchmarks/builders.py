"""Cost of building batches, compared with sorting and appending the same; and the number of
batches.

Batches by subject: a million measurements (time, subject, number) of a thousand subjects, either
shuffled, or in bursts: 20 subjects a timestamp with 1 to 40 metrics each, in order of time. Batches
by event time: many windows are open at a time; they fill with messages at random and close by their
timeout. The reference appends each message to the list of its window.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from benchmarks.figures import Figure
from dispatcher.builders import EventTimeBuilder, SubjectBuilder

COUNT = 1_000_000
SUBJECTS = [f"subject {number}" for number in range(1_000)]
RATE = 300_000
FILL = 10

Measurement = tuple[int, str, int]
Message = tuple[int, float]


def run() -> Iterator[Figure]:
    """Measure processor times, taken back to back."""
    even, bursty = _even(), _bursts(COUNT)
    name = "SubjectBuilder, a million measurements"
    yield Figure(f"{name}, shuffled", _against_sorting(even, 500), "x sorted", at_most=4)
    yield Figure(f"{name}, bursts by time", _against_sorting(bursty, 50), "x sorted", at_most=4)
    fewer = len(_built(bursty, 50)) / _next_fit(bursty, 50)
    name = "batches of 50 on bursts of 1 to 40"
    yield Figure(f"{name}, against next-fit", fewer, "x next-fit", at_most=0.95)
    name = "the same, the worst of 2,000 random inputs"
    yield Figure(name, _worst_count(), "x next-fit", at_most=1)

    many = _event_time(10_000)
    yield Figure(
        "EventTimeBuilder at 10,000 open batches",
        many.ratio,
        "x appending",
        at_most=1 / (RATE * many.appending),
        note=f"{1 / many.building:,.0f} messages/s; the bound is {RATE:,}",
    )
    # With the same memory of duplicates: by default it grows with the timeout.
    few, many = _event_time(100, memory=1_000), _event_time(10_000, memory=1_000)
    yield Figure(
        "from 100 to 10,000 open, beyond how appending grows",
        many.ratio / few.ratio,
        "x",
        at_most=1.5,
        note=f"by itself {many.building / few.building:.2f} x",
    )
    name = "memory after 200,000 messages, against 50,000"
    yield Figure(name, _memory_growth(), "x", at_most=1.05)


# Batches by subject.


def _even() -> list[Measurement]:
    chance = random.Random(1)
    return [(chance.randrange(20_000), chance.choice(SUBJECTS), n) for n in range(COUNT)]


def _bursts(count: int) -> list[Measurement]:
    """Return twenty subjects a timestamp, with 1 to 40 metrics each."""
    chance = random.Random(2)
    made: list[Measurement] = []
    moment = 0
    while len(made) < count:
        for subject in chance.sample(SUBJECTS, 20):
            made += [(moment, subject, metric) for metric in range(chance.randint(1, 40))]
        moment += 1
    return made[:count]


def _built(measurements: list[Measurement], most: int) -> list[Any]:
    builder = SubjectBuilder[Measurement](most, subject=itemgetter(1), event_time=itemgetter(0))
    builder.extend(measurements)
    return builder.build()


def _against_sorting(measurements: list[Measurement], most: int) -> float:
    ratios = []
    for _ in range(3):
        building = _seconds(lambda: _built(measurements, most))
        sorting = _seconds(lambda: sorted(measurements, key=itemgetter(0, 1)))
        ratios.append(building / sorting)
    return statistics.median(ratios)


def _next_fit(measurements: list[Measurement], most: int) -> int:
    """Return the number of batches if groups are placed in order of time and arrival."""
    sizes: dict[tuple[int, str], int] = {}
    for moment, subject, _ in measurements:
        sizes[moment, subject] = sizes.get((moment, subject), 0) + 1
    batches, room = 0, 0
    for _, size in sorted(sizes.items(), key=lambda item: item[0][0]):
        if size <= room:
            room -= size
        elif size <= most:
            batches, room = batches + 1, most - size
        else:
            batches, room = batches - (room - size) // most, (room - size) % most
    return batches


def _worst_count() -> float:
    chance = random.Random(3)
    worst = 0.0
    for _ in range(2_000):
        most = chance.randint(1, 30)
        largest = chance.randint(1, 40)
        measurements = [
            (chance.randrange(8), subject, 0)
            for subject in "abcdefghij"[: chance.randint(1, 10)]
            for _ in range(chance.randint(1, largest))
        ]
        worst = max(worst, len(_built(measurements, most)) / _next_fit(measurements, most))
    return worst


# Batches by event time.


class _Costs:
    """Seconds for a message, of the quickest round: the others were disturbed."""

    def __init__(self, building: list[float], appending: list[float]) -> None:
        self.building = min(building)
        self.appending = min(appending)
        self.ratio = self.building / self.appending


def _messages(opened: int, count: int) -> list[Message]:
    """Return (key, event time): each window gets FILL messages, in random order, and is then
    followed by another."""
    chance = random.Random(4)
    got = [0] * opened
    made = []
    for _ in range(count):
        window = chance.randrange(opened)
        step, key = divmod(got[window], FILL)
        got[window] += 1
        made.append((key, 100.0 * (step * opened + window) + 5 * key))
    return made


def _event_time(
    opened: int, rounds: int = 5, count: int = 100_000, memory: int | None = None
) -> _Costs:
    timeout = opened * FILL
    warm_up = 2 * timeout
    messages = _messages(opened, warm_up + rounds * count)
    builder, arrival = _event_time_builder(timeout, memory), 0
    lists: dict[float, list[Message]] = {}
    building, appending = [], []

    def feed(some: list[Message]) -> None:
        nonlocal arrival
        for message in some:
            builder.add(message, arrival)
            arrival += 1

    def append(some: list[Message]) -> None:
        for message in some:
            window = message[1] // 100
            if window in lists:
                lists[window].append(message)
            else:
                lists[window] = [message]

    feed(messages[:warm_up])
    append(messages[:warm_up])
    for start in range(warm_up, len(messages), count):
        some = messages[start : start + count]
        building.append(_seconds(lambda some=some: feed(some)) / count)  # type: ignore[misc]
        appending.append(_seconds(lambda some=some: append(some)) / count)  # type: ignore[misc]
    if not 0.5 * opened <= len(builder) <= 2 * opened:
        raise AssertionError(f"{len(builder)} batches were open, not about {opened}")
    return _Costs(building, appending)


def _event_time_builder(timeout: int, memory: int | None = None) -> EventTimeBuilder[Message]:
    return EventTimeBuilder(
        50, timeout, key=itemgetter(0), event_time=itemgetter(1), duplicate_memory=memory
    )


def _memory_growth() -> float:
    opened = 1_000
    messages = _messages(opened, 200_000)
    builder = _event_time_builder(opened * FILL)
    used = []
    gc.collect()
    tracemalloc.start()
    for arrival, message in enumerate(messages, start=1):
        builder.add(message, arrival)
        if arrival in (50_000, 200_000):
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return used[1] / used[0]


def _seconds(work: Callable[[], object]) -> float:
    """Return processor seconds, on which other programs have less influence."""
    gc.collect()
    started = time.process_time()
    result = work()
    elapsed = time.process_time() - started
    del result
    return elapsed
