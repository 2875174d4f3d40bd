"""SubjectSink, compared with the same rows shuffled, sorted and passed to the same function by
hand."""

from __future__ import annotations

import functools
import operator
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from benchmarks.figures import Figure
from benchmarks.spark_session import TWO_EXECUTORS, spark_session
from dispatcher.spark import LimiterConfig, SubjectSink
from dispatcher.spark._ledger import claims
from dispatcher.spark._ledger.claims import SendClaim
from dispatcher.spark._ledger.division import Division
from dispatcher.spark._options import DeliveryOptions
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.task import TaskJob
from limiters.embedded import EmbeddedRedis
from limiters.verifier import verify

ROWS, SUBJECTS = 1_000_000, 5_000
FEW_ROWS = 100_000
"""Two for each subject."""
MOST = 500
"""Rows in a batch, as by default."""
CALL = 0.02
"""How long a call takes, in seconds."""
ROUNDS = 5
CAPACITY = 20_000.0
BACKLOG_SECONDS = 15
AT_LEAST = {"tuple": 0.9, "row": 0.8, "dict": 0.9, "arrow": 0.8}
"""Of the rows a second by hand, for each form of rows."""


def run() -> Iterator[Figure]:
    """Measure rows a second, batches of many subjects, the use of a limit, and an empty
    micro-batch."""
    with EmbeddedRedis() as server:
        with spark_session() as spark:
            yield from _throughput(spark, server.url)
            yield from _packed(spark, server.url)
            yield _task_time(server.url)
            yield _empty(spark, server.url)
        with spark_session(TWO_EXECUTORS) as spark:
            yield from _limited(spark, server.url)


def take_nothing(rows: Any) -> None:
    """Handle rows by doing nothing."""


def _throughput(spark: SparkSession, url: str) -> Iterator[Figure]:
    rows = _rows(spark).repartition(2).cache()
    rows.count()
    seconds: dict[str, list[float]] = {}
    for turn in range(ROUNDS + 1):  # the first one starts workers
        began = time.perf_counter()
        _by_hand(rows)
        seconds.setdefault("by hand", []).append(time.perf_counter() - began)
        for form in AT_LEAST:
            sink = _sink(url, query=f"{form} {turn}", rows=form)
            began = time.perf_counter()
            sink(rows, 0)
            seconds.setdefault(form, []).append(time.perf_counter() - began)
    rows.unpersist()
    hand = seconds.pop("by hand")[1:]
    for form, taken in seconds.items():
        ratio = statistics.median(one / other for one, other in zip(hand, taken[1:], strict=True))
        yield Figure(
            f"SubjectSink, rows as {form}",
            ratio,
            "x by hand",
            at_least=AT_LEAST[form],
            note=f"{ROWS / statistics.median(taken[1:]):,.0f} rows/s",
        )


def _rows(spark: SparkSession) -> DataFrame:
    number = functions.col("id")
    return spark.range(ROWS).select(
        (number % SUBJECTS).cast("string").alias("subject"),
        (number % 17).alias("metric"),
        functions.timestamp_micros(1_700_000_000_000_000 + number * 1000).alias("at"),
        functions.rand(1).alias("value"),
    )


def _by_hand(rows: DataFrame) -> None:
    ordered = rows.repartition(2, "subject").sortWithinPartitions("subject", "at")
    ordered.mapInArrow(_tuples, "n long").collect()


def _tuples(batches: Any) -> Any:
    """Do what a user would write: a loop over tuples, a call for each subject."""
    import pyarrow as pa

    count, subject = 0, None
    together: list[Any] = []
    for batch in batches:
        for row in zip(*batch.to_pydict().values(), strict=True):
            if row[0] != subject or len(together) == 500:
                take_nothing(together)
                together, subject = [], row[0]
            together.append(row)
            count += 1
    take_nothing(together)
    yield pa.RecordBatch.from_pydict({"n": [count]})


def _sink(url: str, **told: Any) -> SubjectSink:
    told = {"handler": take_nothing, "redis": url, **told}
    return SubjectSink(subject="subject", time="at", partitions=2, **told)


def note(rows: list[Any], *, place: str) -> None:
    """Note when it began, and how many rows it received."""
    line = b"%r %d\n" % (time.monotonic(), len(rows))
    descriptor = os.open(f"{place}/{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line)
    os.close(descriptor)


def call(rows: Any) -> None:
    """Takes as long as a call of an API."""
    time.sleep(CALL)


def _packed(spark: SparkSession, url: str) -> Iterator[Figure]:
    """Many subjects with few rows each, in batches of many subjects and of one."""
    number = functions.col("id")
    rows = spark.range(FEW_ROWS).select(
        (number % (FEW_ROWS // 2)).cast("string").alias("subject"),
        functions.timestamp_micros(1_700_000_000_000_000 + number * 1000).alias("at"),
    )
    rows = rows.repartition(2).cache()
    rows.count()
    _sink(url, query="to start workers", rows="tuple")(rows.limit(100), 0)
    seconds, calls = {}, {}
    for pack in (True, False):
        sink = _sink(url, handler=call, query=f"pack {pack}", rows="tuple", pack=pack)
        began = time.perf_counter()
        sink(rows, 0)
        seconds[pack] = time.perf_counter() - began
        assert sink.last is not None
        calls[pack] = sink.last.batches
    rows.unpersist()
    yield Figure(
        "batches of many subjects, rows a second",
        seconds[False] / seconds[True],
        "x pack=False",
        at_least=5.0,
        note=f"{FEW_ROWS / seconds[True]:,.0f} rows/s, {CALL * 1000:.0f} ms a call",
    )
    tasks = 2
    yield Figure(
        "batches of many subjects, calls beyond one a task",
        (calls[True] - tasks) / (FEW_ROWS / MOST),
        "of rows / maximum",
        at_most=1.1,
        note=f"{calls[True]:,} calls, {calls[False]:,} with pack=False",
    )


def _task_time(url: str) -> Figure:
    """Measure a task without Spark, since the processor time of Spark's workers is not known."""
    import pyarrow as pa

    subjects = sorted(map(str, range(FEW_ROWS // 4)))
    columns = {"subject": [one for one in subjects for _ in range(2)]}
    rows = pa.table({**columns, "at": list(range(FEW_ROWS // 2))}).to_batches(10_000)
    spent: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(ROUNDS):
        for pack in spent:
            division = Division(1, MOST) if pack else None
            job = TaskJob(
                DeliveryOptions(handler=take_nothing, rows="tuple", cost=1.0),
                Columns("subject", "at"),
                Cut(MOST),
                "number",
                f"task {pack} {turn}",
                0,
                _claim(url, f"task {pack} {turn}", division),
                division=division,
            )
            began = time.process_time()
            list(job.run(rows))
            spent[pack].append(time.process_time() - began)
    return Figure(
        "batches of many subjects, processor time of a task",
        statistics.median(map(operator.truediv, spent[True], spent[False])),
        "x pack=False",
        at_most=0.4,
    )


def _claim(url: str, query: str, division: Division | None) -> SendClaim:
    place = claims.Place(url, "dispatcher", query, query)
    redis = claims.Redis(place, 60)
    try:
        return claims.QueryRun().claim(
            redis,
            place,
            0,
            signature="",
            time_kind="number",
            lease=60,
            remember=60,
            division=division,
        )
    finally:
        redis.close()


def _limited(spark: SparkSession, url: str) -> Iterator[Figure]:
    rows = _rows(spark).limit(int(CAPACITY) * BACKLOG_SECONDS)
    _sink(url, query="to start executors")(rows, 0)
    with tempfile.TemporaryDirectory() as place:
        sink = _sink(
            url,
            handler=functools.partial(note, place=place),
            query="limited",
            rows="tuple",
            max_batch_size=100,
            limiter=LimiterConfig(url=url, name="bench", shared_capacity=CAPACITY, factor=1_000),
        )
        sink(rows, 0)
        log = [
            (float(at), file.name, float(cost))
            for file in Path(place).iterdir()
            for at, cost in (line.split() for line in file.read_text().splitlines())
        ]
    # While both have a backlog: one may end a little before the other.
    ended = {who: at for at, who, _ in sorted(log)}
    until = min(ended.values())
    verdict = verify([one for one in log if one[0] <= until], CAPACITY)
    yield Figure(
        "used of the limit, two executors",
        verdict.used,
        "of the capacity",
        at_least=0.97,
        note=f"by {len(ended)} processes",
    )
    yield Figure("windows over", verdict.over, f"of {verdict.windows:,}", at_most=0)


def _empty(spark: SparkSession, url: str) -> Figure:
    nothing = _rows(spark).repartition(2).where("metric > 99").cache()
    nothing.count()
    more = []
    for turn in range(3 * ROUNDS):
        began = time.perf_counter()
        _by_hand(nothing)
        between = time.perf_counter()
        sink = _sink(url, query=f"empty {turn}")
        sink(nothing, 0)
        more.append((time.perf_counter() - between) - (between - began))
    return Figure(
        "an empty micro-batch beyond Spark's own time",
        1000 * statistics.median(more),
        "ms",
        at_most=300,
    )
