"""Objects that instrument() takes, what it keeps, and what joins."""

from __future__ import annotations

import gc
import os
import re
import signal
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from dispatcher import Batcher, Watcher
from dispatcher.metrics import Options, Part, Reading, instrument, instrumentable
from dispatcher.metrics import _names as names
from dispatcher.timeline import Timeline
from limiters.embedded import EmbeddedRedis
from tests.integration.metrics.shown import Shown, operations
from tests.waiting import until


def test_what_cannot_be_read_hides_nothing_else(
    shown: Shown, own_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    timeline, batcher = Timeline(own_redis.url, "mails"), Batcher()
    instrument(timeline, shown.registry)
    instrument(batcher, shown.registry)
    assert shown("timeline_created_total") == 0
    own_redis.kill()
    for _ in range(3):
        assert shown("timeline_created_total") is None
        assert shown("throttled_total") == 0
    assert len([it for it in caplog.records if it.name.startswith("dispatcher.metrics")]) == 1
    own_redis.start()
    assert shown("timeline_created_total") == 0
    timeline.close()


def test_counters_outlive_the_object_that_counted(shown: Shown) -> None:
    watcher = Watcher(lambda batch: None)

    def work() -> None:
        batcher = Batcher()
        instrument(batcher, shown.registry)
        with batcher:
            batcher.enqueue_many(operations(watcher, 10))

    work()
    work()
    gc.collect()
    until(lambda: (gc.collect() and False) or shown("buffer_operations") is None)
    assert shown("operations_total", outcome="done") == 20
    assert shown("batch_size_sum") == 20
    work()
    assert shown("operations_total", outcome="done") == 30


def test_two_of_one_name_are_added_up_and_one_can_be_taken_away(shown: Shown) -> None:
    one, other = Batcher(max_buffer_size=10), Batcher(max_buffer_size=20)
    instrument(one, shown.registry)
    with instrument(other, shown.registry):
        assert shown("buffer_size_operations") == 30
    assert shown("buffer_size_operations") == 10


def test_what_is_shown_already_is_not_watched_twice(
    shown: Shown, shared_redis: EmbeddedRedis
) -> None:
    batcher, timeline = Batcher(), Timeline(shared_redis.url, "mails")
    for _ in range(3):
        instrument(batcher, shown.registry)
        instrument(timeline, shown.registry)
    assert len(batcher._engine.observed.observers) == 1
    assert len(timeline._topic.watch_lateness) == 1
    timeline.close()


def test_a_scrape_that_waits_holds_up_no_other_thread(shown: Shown) -> None:
    asked, answered = threading.Event(), threading.Event()

    class Far:
        """Somewhere on the network."""

    class FarPart:
        def __init__(self, far: Far) -> None:
            self.subject = far

        def read(self) -> Iterable[Reading]:
            asked.set()
            answered.wait(20)
            return []

    @instrumentable(Far)
    def parts_of_far(far: Far, options: Options) -> list[Part]:
        return [FarPart(far)]

    instrument(Far(), shown.registry)
    scrape = threading.Thread(target=shown, args=["demand"])
    scrape.start()
    assert asked.wait(20)
    instrument(Batcher(), shown.registry).remove()
    assert scrape.is_alive()
    answered.set()
    scrape.join(20)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_b10_who_is_forked_amid_a_scrape_can_be_scraped(shown: Shown) -> None:
    asked, answered, parent = threading.Event(), threading.Event(), os.getpid()

    class Slow:
        """Takes its time, in the parent."""

    class SlowPart:
        def __init__(self, slow: Slow) -> None:
            self.subject = slow

        def read(self) -> Iterable[Reading]:
            if os.getpid() == parent:
                asked.set()
                answered.wait(20)
            return [Reading(names.DEMAND, ("slow",), 7)]

    @instrumentable(Slow)
    def parts_of_slow(slow: Slow, options: Options) -> list[Part]:
        return [SlowPart(slow)]

    instrument(Slow(), shown.registry)
    scrape = threading.Thread(target=shown, args=["demand"])
    scrape.start()
    assert asked.wait(20)
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends it, should it hang
        os._exit(0 if shown("demand", limit="slow") == 7 else 1)
    answered.set()
    scrape.join(20)
    assert os.waitpid(child, 0)[1] == 0


def test_a_kind_of_the_users_own_joins(shown: Shown) -> None:
    class Oven:
        heat = 200.0

        def __init__(self) -> None:
            self.batcher = Batcher(max_buffer_size=7)

    class OvenPart:
        def __init__(self, oven: Oven) -> None:
            self.subject = oven

        def read(self) -> Iterable[Reading]:
            return [Reading(names.DEMAND, ("oven",), self.subject.heat)]

    @instrumentable(Oven)
    def parts_of_oven(oven: Oven, options: Options) -> list[Part]:
        return [OvenPart(oven)]

    class Bakery:
        """Something that only consists of others."""

        def __init__(self) -> None:
            self.oven = Oven()

        @property
        def consists_of(self) -> list[object]:
            return [self.oven, self.oven.batcher]

    bakery = Bakery()
    instrument(bakery, shown.registry)
    assert shown("demand", limit="oven") == 200
    assert shown("buffer_size_operations") == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"subject": 3}, "subject must be a Batcher, a limiter"),
        ({"name": ""}, "name must be a text that is not empty, not ''"),
        ({"registry": "x"}, "registry must be a CollectorRegistry, not 'x'"),
        ({"exemplar": 5}, "exemplar must be callable, not 5"),
        ({"cost_buckets": [5, 1]}, "cost_buckets must ascend, not [5, 1]"),
        ({"cost_buckets": 5}, "cost_buckets must be a list of numbers that ascend, not 5"),
    ],
)
def test_bad_values_are_named(arguments: dict[str, Any], said: str) -> None:
    subject = arguments.pop("subject", None) or Batcher()
    with pytest.raises(ValueError, match=re.escape(said)):
        instrument(subject, **{"registry": CollectorRegistry(), **arguments})
