"""Read from all buckets of a topic what is due when, and how many messages there are, without
changing anything."""

from __future__ import annotations

import operator
import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from dispatcher.timeline._server.server import COUNT, LOOK, STATS
from dispatcher.timeline._server.topic import KNOWN, Topic
from dispatcher.timeline.errors import TimelineError
from limiters._redis.script import Script

AT_ONCE = 32
"""Number of buckets that one script reads."""

COUNTS_AT_ONCE = 500
"""Number of edges of ranges, in each set of each bucket, that one script counts at."""

EDGES_AT_ONCE = 60
"""How many of these belong to one bucket: enough for one script to count in several."""

STATES = {
    "waiting": ("new", "waiting"),
    "leased": ("lost", "processing"),
    "dead": ("dead", "dead"),
}
"""The states of the messages in a set: due by now, and due later."""

NUMBERS = (
    *("new", "lost", "waiting", "processing", "dead"),
    *("created", "deleted", "given_up", "remembered"),
)
"""Names of the numbers in the reply of stats.lua, in order."""

_HEADS = struct.Struct("<dd")


class DueTimes(NamedTuple):
    """The earliest waiting and leased times of a bucket, at most KNOWN of each."""

    waiting: list[float]
    leased: list[float]
    beyond: int
    """Number of due messages beyond these."""


def times_of(blob: bytes) -> list[float]:
    """Decode times from a reply of times.lua."""
    return list(struct.unpack(f"<{len(blob) // 8}d", blob))


def look(topic: Topic) -> Iterator[tuple[int, DueTimes | TimelineError]]:
    """Read all buckets. Each comes with its times, or with an error. TimelineError if no node
    answers at all. A node that is away must not hide what is due on the others, nor a key of
    another type what is due in other buckets."""
    groups = groups_of(topic, AT_ONCE)
    answers = topic.server.run_each(
        LOOK, [(topic.layout.some(buckets, "waiting", "leased"), (KNOWN,)) for buckets in groups]
    )
    if all(isinstance(answer, TimelineError) for answer in answers):
        raise answers[0]
    for buckets, answer in zip(groups, answers, strict=True):
        if isinstance(answer, TimelineError):
            yield from ((bucket, answer) for bucket in buckets)
            continue
        for bucket, seen in zip(buckets, answer[1], strict=True):
            if isinstance(seen, bytes):
                yield bucket, topic.server.of_another_type(seen)
            else:
                yield bucket, DueTimes(times_of(seen[0]), times_of(seen[1]), seen[2])


def counts(
    topic: Topic, edges: Sequence[float], states: Collection[str], *, relative: bool
) -> list[int]:
    """Count the messages in each range between two edges that are in one of `states`."""
    sets = [part for part, its in STATES.items() if not set(its).isdisjoint(states)]
    counted = [(part, state) for part in sets for state in STATES[part]]
    ranges = len(edges) - 1
    totals: list[int] = []
    for start in range(0, ranges, EDGES_AT_ONCE):
        part = edges[start : start + EDGES_AT_ONCE + 1]
        groups = groups_of(topic, COUNTS_AT_ONCE // (len(part) * len(sets)))
        told = [len(sets), struct.pack(f"<{len(part)}d", *part), int(relative)]
        found = [0] * (len(part) - 1)
        for answer in _asked(topic, COUNT, groups, *sets, arguments=told):
            numbers = struct.unpack(f"<{len(answer[1]) // 4}I", answer[1])
            for place, (_, state) in enumerate(counted):
                if state in states:
                    of_state = numbers[place * len(found) : (place + 1) * len(found)]
                    found = list(map(operator.add, found, of_state))
        totals += found
    return totals


class TopicTotals(NamedTuple):
    """Current and past numbers of messages of a topic."""

    now_us: int
    """The server's time at the last reading."""
    waiting: float
    """When the first waiting message is due."""
    leased: float
    """When the first lease ends."""
    numbers: dict[str, int]


def totals(topic: Topic) -> TopicTotals:
    """Return the sum over all buckets, each read at one moment: equations that hold for each bucket
    hold for the sum."""
    parts = ("waiting", "leased", "dead", "deleted", "meta")
    answers = _asked(topic, STATS, groups_of(topic, AT_ONCE), *parts)
    heads = [_HEADS.unpack(answer[1]) for answer in answers]
    sums = map(sum, zip(*(answer[2] for answer in answers), strict=True))
    return TopicTotals(
        max(answer[0] for answer in answers),
        min(waiting for waiting, _ in heads),
        min(leased for _, leased in heads),
        dict(zip(NUMBERS, sums, strict=True)),
    )


def groups_of(topic: Topic, at_once: int, buckets: Sequence[int] | None = None) -> list[list[int]]:
    """Group buckets so that one script can read each group; in a cluster each alone, as nodes
    differ."""
    step = 1 if topic.server.is_cluster else at_once
    buckets = range(topic.buckets) if buckets is None else buckets
    return [list(buckets[start : start + step]) for start in range(0, len(buckets), step)]


def _asked(
    topic: Topic, script: Script, groups: Sequence[list[int]], *parts: str, arguments: Any = ()
) -> list[Any]:
    answers = topic.server.run_each(
        script, [(topic.layout.some(buckets, *parts), arguments) for buckets in groups]
    )
    for answer in answers:
        if isinstance(answer, TimelineError):
            raise answer
    return answers
