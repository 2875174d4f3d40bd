"""Targets for batches that failed for good or cannot be sent."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Iterator
from contextlib import closing
from dataclasses import dataclass
from os.path import isabs
from typing import TYPE_CHECKING, Any, Protocol

from dispatcher._handler import Target, check, load
from dispatcher.spark._rows.formats import dicts
from dispatcher.spark.context import Context
from dispatcher.spark.errors import SparkSinkError
from limiters._redis.url import checked, without_secrets
from limiters._support.callables import check_effective
from limiters._support.validation import ArgumentError, key_part, named

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_BODY = 250_000
"""The largest body of a message on a Timeline, in bytes."""
SCHEMES = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss", "file")
"""Schemes of the file systems that pyarrow opens by a URI."""


@dataclass(frozen=True)
class DeadLetterTable:
    """Writes each batch as a Parquet file into the folder `path`, which Spark reads as a table.

    `path` is an absolute path on a disk that all executors share, or a URI that pyarrow can open
    (s3://, gs://, hdfs://, abfss://). A batch that is given up again replaces its file.

    The columns are those of the rows, and `dead_reason`, `dead_query`, `dead_batch_id`.
    """

    path: str

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not ("://" in self.path or isabs(self.path)):
            raise ArgumentError(
                "path",
                self.path,
                "be a URI or an absolute path, so that it is the same on all executors",
            )
        scheme, separator, _ = self.path.partition("://")
        if separator and scheme not in SCHEMES:
            known = ", ".join(f"{one}://" for one in SCHEMES)
            raise ArgumentError(
                "path",
                self.path,
                f"begin with one of {known}",
                "pyarrow writes the files, and these are the schemes it has: where Spark has "
                "s3a://, use s3://",
            )

    def take(self, records: pa.RecordBatch, context: Context) -> None:
        """Write `records`. `context` has the reason why they were not sent."""
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow.fs import FileSystem, LocalFileSystem

        table = pa.Table.from_batches([records])
        for name, value, kind in (
            ("dead_reason", context.reason, pa.string()),
            ("dead_query", context.query, pa.string()),
            ("dead_batch_id", context.batch_id, pa.int64()),
        ):
            table = table.append_column(name, pa.array([value] * len(table), kind))
        if "://" in self.path:
            system, folder = FileSystem.from_uri(self.path)
        else:
            system, folder = LocalFileSystem(), self.path
        system.create_dir(folder, recursive=True)
        # Spark does not read files whose names begin with a dot, so it never reads half a file.
        half = f"{folder}/.{context.key}.parquet"
        pq.write_table(table, half, filesystem=system)
        system.move(half, f"{folder}/{context.key}.parquet")


@dataclass(frozen=True, repr=False)
class DeadLetterTimeline:
    """Creates a message for each batch on `topic` of a Timeline in the Redis at `url`, for a worker
    to handle, or several messages if the batch is large. A message is JSON with reason, query,
    batch_id, subject and rows; values that JSON does not have are written as texts. A batch that is
    given up again is the same message.
    """

    url: str
    topic: str
    prefix: str = "dispatcher"

    def __post_init__(self) -> None:
        # A mistake would otherwise show only when the first batch is given up.
        if not isinstance(self.url, str):
            raise ArgumentError(
                "url", self.url, "be a URL that executors can be given, such as redis://host:6379/0"
            )
        with named({"url_or_client": "url"}):
            checked(self.url)
        key_part("topic", self.topic)
        key_part("prefix", self.prefix)

    def take(self, records: pa.RecordBatch, context: Context) -> None:
        """Create messages of `records`. `context` has the reason why they were not sent."""
        from dispatcher.timeline import Duplicate, Message, Timeline

        facts = {
            "reason": context.reason,
            "query": context.query,
            "batch_id": context.batch_id,
            "subject": context.subject,
        }
        with closing(Timeline(self.url, self.topic, prefix=self.prefix)) as timeline:
            outcomes = timeline.producer("dead-letters").create(
                [
                    Message(body, id=f"{context.key}-{number}")
                    for number, body in enumerate(_bodies(dicts(records), facts))
                ]
            )
        for outcome in outcomes:
            if not (outcome.ok or isinstance(outcome, Duplicate)):
                raise SparkSinkError(f"{self} refused a dead letter: {outcome}")

    def __repr__(self) -> str:
        return f"DeadLetterTimeline({without_secrets(checked(self.url))!r}, {self.topic!r})"


def _bodies(rows: list[Any], facts: dict[str, Any]) -> Iterator[Any]:
    """Return the bodies of as many messages as are needed: `facts` with some of `rows`."""
    body = _as_json({**facts, "rows": rows})
    if len(rows) > 1 and len(json.dumps(body)) > LARGEST_BODY:
        half = len(rows) // 2
        yield from _bodies(rows[:half], facts)
        yield from _bodies(rows[half:], facts)
    else:
        yield body


def _as_json(value: Any) -> Any:
    """Return `value` with all values that JSON does not have, such as NaN, as texts."""
    if isinstance(value, dict):
        return {str(key): _as_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(one) for one in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


def checked_target(target: object) -> None:
    """Refuse a value that cannot be a target."""
    if target is None or isinstance(target, (DeadLetterTable, DeadLetterTimeline)):
        return
    if callable(target):
        check_effective("dead_letters", target)
        load(target)  # it refuses a function that takes other arguments
        return
    try:
        check(target)
    except ArgumentError:
        raise ArgumentError(
            "dead_letters",
            target,
            "be a callable, 'module:function', a DeadLetterTable(path) or a "
            "DeadLetterTimeline(url, topic)",
        ) from None


class DeadLetters(Protocol):
    """A target for rows that are not sent. It is called on several threads at the same time. The
    rows are stored when `take` has returned, or when the awaitable that it returned has ended."""

    def take(self, records: pa.RecordBatch, context: Context) -> Awaitable[object] | None:
        """Store `records`. `context` has the reason why they were not sent."""
        ...


class _Function:
    """A user's function, which is given rows as dicts."""

    def __init__(self, target: Target) -> None:
        self._handler = load(target)

    def take(self, records: pa.RecordBatch, context: Context) -> Awaitable[object] | None:
        returned = self._handler.bound(context)(dicts(records))
        if self._handler.is_async:
            awaitable: Awaitable[object] = returned
            return awaitable
        return None


def dead_letters_of(target: Any) -> DeadLetters | None:
    """Return the target that a user gave as `target`."""
    if target is None or isinstance(target, (DeadLetterTable, DeadLetterTimeline)):
        return target
    return _Function(target)
