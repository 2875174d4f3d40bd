"""Arguments that a SubjectSink refuses when it is made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher.errors import HandlerError
from dispatcher.registration import RedisEntityStore
from dispatcher.spark import SubjectSink
from tests.spark.handlers import only_rows


def generates(batch: list[Any]) -> Iterator[Any]:
    """Run nothing until it is iterated over."""
    yield from batch


async def awaits(batch: list[Any]) -> None:
    """Run nothing until it is awaited."""


def sink(handler: Any = only_rows, **options: Any) -> SubjectSink:
    """Return a sink that would work, apart from its `options`."""
    right = {"subject": "subject", "time": "at", "redis": "redis://db:6379/0"}
    return SubjectSink(**{"handler": handler, **right, **options})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"subject": ""}, "subject must be the name of a column"),
    ({"time": 5}, "time must be the name of a column"),
    ({"order": "some"}, "order must be 'subject' or 'global'"),
    ({"lane": "x"}, "lane must go with order='global'"),
    ({"pack": 1}, "pack must be True or False"),
    ({"pack": False, "order": "global"}, "pack must go with order='subject', not False"),
    ({"gate": 5}, "gate must be a RedisEntityStore"),
    (
        {"gate": RedisEntityStore("redis://x", name="x"), "order": "global"},
        "gate must go with order",
    ),
    ({"late": "never"}, "late must be"),
    ({"late": "reject"}, "dead_letters must be given with late='reject'"),
    (
        {"late": "reject", "dead_letters": only_rows, "ledger": False},
        "ledger must be True with late='reject'",
    ),
    ({"rows": "pandas"}, "rows must be 'row', 'dict', 'tuple' or 'arrow'"),
    ({"rows": ["dict"]}, r"rows must be .*, not \['dict'\]"),
    ({"max_batch_size": 0}, "max_batch_size"),
    ({"concurrency": 0}, "concurrency"),
    ({"concurrency": 1_000_000}, "concurrency must be at most 1,000, not 1000000"),
    ({"cost": -1}, "cost"),
    ({"cost": [1]}, r"cost must be a number, an SQL expression, .*not \[1\]"),
    ({"cost": ""}, "cost must be a number, an SQL expression"),
    ({"cost": None}, "cost must be a number, an SQL expression"),
    ({"cost": True}, "cost must be a number"),
    ({"identity": "n"}, "identity must be a list of names of columns, not 'n'"),
    ({"identity": [5]}, "identity must be a list of names"),
    ({"max_attempts": 3}, "max_attempts must go with retry"),
    ({"ledger": "no"}, "ledger must be True or False, not 'no'"),
    ({"prefix": ""}, "prefix must be"),
    ({"redis": 6379}, "redis must be a URL that executors can be given"),
    ({"dead_letters": lambda: None}, "it must take a batch"),
    ({"dead_letters": generates}, "dead_letters must not be a generator function"),
    ({"handler": generates}, "handler must not be a generator function"),
    ({"on_micro_batch": awaits}, "on_micro_batch must be a plain function"),
    ({"handler": lambda: None}, "it must take a batch"),
    ({"handler": lambda batch, context, other: None}, "it must take a batch"),
    ({"retry": 5}, "retry must be"),
    ({"dead_letters": 5}, "dead_letters must be"),
    ({"limiter": "redis://x"}, "limiter must be a LimiterConfig"),
    ({"redis": None}, "redis must say where"),
    ({"redis": "http://x"}, "redis"),
    ({"query": ""}, "query must be"),
    ({"lease_time": 0.1}, "lease_time must be at least 1"),
    ({"lease_time": 1e30}, "lease_time must be at most 86400 seconds"),
    ({"remember": 1e30}, "remember must be at most 100 years"),
    ({"partitions": 2**31}, "partitions must be at most 100,000, not 2147483648"),
    ({"rows": ["row"]}, "rows must be 'row', 'dict', 'tuple' or 'arrow'"),
    ({"lane": "", "order": "global"}, "lane must be the name of a column"),
    ({"cost": awaits}, "cost must be a plain function"),
    ({"cost": generates}, "cost must not be a generator function"),
    ({"on_micro_batch": 5}, "on_micro_batch"),
    ({"partitions": 0}, "partitions"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_arguments_are_refused_when_a_sink_is_made(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, HandlerError), match=message):
        sink(**options)


@pytest.mark.parametrize("handler", [5, "send", None])
def test_an_object_that_is_no_handler_is_refused_when_a_sink_is_made(handler: Any) -> None:
    with pytest.raises(ValueError, match="handler must be"):
        sink(handler)


def test_a_handler_that_cannot_be_pickled_is_refused_when_a_sink_is_made() -> None:
    lock = threading.Lock()

    with pytest.raises(
        ValueError, match="handler must be something that can be sent to the executors"
    ):
        sink(lambda rows: lock.acquire())
