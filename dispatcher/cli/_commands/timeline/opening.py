"""TOPIC, and the Timeline that it names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dispatcher.cli._commands.connecting import PATIENCE, URL_OPTION, naming_another
from dispatcher.cli._options.redis import TopicOptions
from dispatcher.cli._text.showable import printable
from dispatcher.timeline import Timeline, TimelineUnavailableError
from dispatcher.timeline.errors import TimelineError
from limiters._support.validation import named


@contextmanager
def opened(
    options: TopicOptions, *, new: bool = False, buckets: int | None = None
) -> Iterator[Timeline]:
    """The topic that was named, which must exist, or may be `new`."""
    with named(URL_OPTION):
        timeline = Timeline(
            options.redis,
            options.topic,
            prefix=options.prefix,
            buckets=buckets,
            timeout=PATIENCE,
        )
    try:
        if not timeline.exists() and not new:
            raise no_topic(timeline, options.prefix)
        yield timeline
    except TimelineUnavailableError as error:
        raise naming_another(options, error) from None
    finally:
        timeline.close()


def now_ms(timeline: Timeline) -> float:
    """The time by the clock of the server, which is the one that counts."""
    return (time.time() - (timeline.drift or 0.0)) * 1000


def no_topic(timeline: Timeline, prefix: str) -> TimelineError:
    """What to say if there is none of that name."""
    name = printable(timeline.topic)
    return TimelineError(
        f"there is no topic {name!r} in {timeline.where} under the prefix {prefix!r}. "
        "The first program that uses it makes it, or: "
        f"dispatcher timeline create {name} --new-topic --group GROUP BODY"
    )
