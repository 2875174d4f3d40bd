"""Looks at all buckets of a topic: what is due when, and how many there are, changing nothing."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.server import COUNT, LOOK, TOTALS
from dispatcher.timeline.topic import Topic
from limiters.leases.script import Script

AT_ONCE = 32
"""How many buckets one script looks at."""

COUNTS_AT_ONCE = 400
"""How many ranges times buckets one script counts."""

STATES = ("new", "lost", "waiting", "processing", "dead")
"""In the order in which count.lua counts them."""

_SEEN = struct.Struct("<ddI")


class Seen(NamedTuple):
    """When the first of waiting and of leased is due, and how many are due now."""

    waiting: float
    leased: float
    due: int


def look(topic: Topic) -> Iterator[tuple[int, Seen | None]]:
    """Each bucket, and what is seen there; None where there is no answer. TimelineError if there
    is none at all: a node that is gone must not hide what is due on the others."""
    groups = groups_of(topic, AT_ONCE)
    answers = topic.server.run_each(
        LOOK, [(topic.layout.some(buckets, "waiting", "leased"), ()) for buckets in groups]
    )
    if all(isinstance(answer, TimelineError) for answer in answers):
        raise answers[0]
    for buckets, answer in zip(groups, answers, strict=True):
        if isinstance(answer, TimelineError):
            yield from ((bucket, None) for bucket in buckets)
            continue
        for bucket, seen in zip(buckets, _SEEN.iter_unpack(answer[1]), strict=True):
            yield bucket, Seen(*seen)


def heads(topic: Topic) -> tuple[float, float]:
    """When the first of all that wait, and of all that are leased, is due."""
    groups = groups_of(topic, AT_ONCE)
    waiting = leased = math.inf
    for answer in _asked(topic, LOOK, groups, "waiting", "leased"):
        for seen in map(Seen._make, _SEEN.iter_unpack(answer[1])):
            waiting, leased = min(waiting, seen.waiting), min(leased, seen.leased)
    return waiting, leased


def counts(topic: Topic, edges: Sequence[float], *, relative: bool) -> list[dict[str, int]]:
    """How many there are in each range between two edges, by state."""
    bins = len(edges) - 1
    totals = [dict.fromkeys(STATES, 0) for _ in range(bins)]
    step = min(bins, COUNTS_AT_ONCE)
    for start in range(0, bins, step):
        part = [repr(float(edge)) for edge in edges[start : start + step + 1]]
        groups = groups_of(topic, max(1, COUNTS_AT_ONCE // (len(part) - 1)))
        arguments = [*part, int(relative)]
        for answer in _asked(
            topic, COUNT, groups, "waiting", "leased", "dead", arguments=arguments
        ):
            for at, number in enumerate(answer[1]):
                totals[start + at // len(STATES)][STATES[at % len(STATES)]] += number
    return totals


def totals(topic: Topic) -> tuple[int, int, int, int]:
    """How many were created, deleted and given up, and how many deleted ones are remembered."""
    groups = groups_of(topic, AT_ONCE)
    answers = [answer[1:] for answer in _asked(topic, TOTALS, groups, "deleted", "meta")]
    created, deleted, given_up, remembered = map(sum, zip(*answers, strict=True))
    return created, deleted, given_up, remembered


def groups_of(topic: Topic, at_once: int) -> list[list[int]]:
    """The buckets that one script can work on: in a cluster each alone, as nodes differ."""
    step = 1 if topic.server.is_cluster else at_once
    buckets = range(topic.buckets)
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
