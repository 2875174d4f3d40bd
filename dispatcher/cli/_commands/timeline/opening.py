"""Open the Timeline that TOPIC names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dispatcher.cli._commands.connecting import PATIENCE, URL_OPTION, naming_another
from dispatcher.cli._commands.missing import no_topic
from dispatcher.cli._options.redis import TopicOptions
from dispatcher.timeline import Timeline, TimelineUnavailableError
from limiters._support.validation import named


@contextmanager
def opened(
    options: TopicOptions, *, new: bool = False, buckets: int | None = None
) -> Iterator[Timeline]:
    """Open the named topic, which must exist, or may be `new`."""
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
            raise no_topic(timeline.where, options.topic, options)
        yield timeline
    except TimelineUnavailableError as error:
        raise naming_another(options, error) from None
    finally:
        timeline.close()


def now_ms(timeline: Timeline) -> float:
    """Return the time by the clock of the server, which is the one that counts."""
    return (time.time() - (timeline.drift or 0.0)) * 1000
