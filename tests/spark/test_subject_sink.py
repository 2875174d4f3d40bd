"""SubjectSink with real Spark: what is sent, to whom, in which order, and what is remembered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from redis import Redis
from tenacity import stop_after_attempt, wait_fixed

from dispatcher.outcomes import Reject
from dispatcher.registration import RedisEntityStore, RegistrationGate
from dispatcher.spark import (
    DeadLetterTable,
    DeadLetterTimeline,
    LimiterConfig,
    MicroBatch,
    SubjectSink,
    SupersededError,
)
from dispatcher.timeline import Timeline
from limiters.embedded import EmbeddedRedis
from tests.spark.handlers import fail_at, note, notes, noting, only_rows, take, take_async

Row = tuple[str | None, datetime | None, int]


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, "subject string, at timestamp, n long")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


Made = Callable[..., SubjectSink]


@pytest.fixture
def sink(shared_redis: EmbeddedRedis, log: Path) -> Made:
    """A sink that notes what it is given, unless told otherwise."""

    def made(handler: Any = None, **told: Any) -> SubjectSink:
        defaults: dict[str, Any] = {
            "subject": "subject",
            "time": "at",
            "redis": shared_redis.url,
            "query": "orders",
            "rows": "dict",
            "partitions": 2,
            "lease_time": 1,
        }
        return SubjectSink(handler or noting(take, log), **(defaults | told))

    return made


ROWS: list[Row] = [
    (subject, at(second), 10 * second + place)
    for second in (3, 1, 2)
    for place, subject in enumerate(["a", "b", "c"])
]


def taken(log: Path, subject: str) -> list[list[int]]:
    return [one["numbers"] for one in notes(log) if one["subject"] == subject]


def test_k1_each_subject_is_sent_in_order_of_time_in_batches_of_its_own(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    made = sink(max_batch_size=2)

    made(frame(spark, ROWS), 0)

    assert {subject: taken(log, subject) for subject in "abc"} == {
        "a": [[10, 20], [30]],
        "b": [[11, 21], [31]],
        "c": [[12, 22], [32]],
    }
    assert made.last is not None
    assert (made.last.rows, made.last.batches, made.last.sent_rows) == (9, 6, 9)
    assert made.last.cost == 9


@pytest.mark.parametrize(
    ("form", "type_"),
    [("row", "Row"), ("dict", "dict"), ("tuple", "tuple"), ("arrow", "RecordBatch")],
)
def test_rows_are_given_as_was_asked_for(
    spark: SparkSession, sink: Made, log: Path, form: str, type_: str
) -> None:
    sink(rows=form)(frame(spark, ROWS), 0)

    assert {one["type"] for one in notes(log)} == {type_}
    assert sorted(n for one in notes(log) for n in one["numbers"]) == sorted(r[2] for r in ROWS)


def test_a_handler_on_a_loop_and_one_without_context_serve_as_well(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink(noting(take_async, log))(frame(spark, ROWS), 0)
    named = sink("tests.spark.handlers:only_rows", query="others")
    named(frame(spark, ROWS), 0)

    assert taken(log, "b") == [[11, 21, 31]]
    assert named.last is not None
    assert named.last.sent_rows == 9


def test_the_context_says_whose_rows_they_are_and_when_they_were(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink()(frame(spark, ROWS), 7)

    (told,) = [one for one in notes(log) if one["subject"] == "b"]
    assert told["first"] == "2026-01-01 00:00:01+00:00"
    assert told["last"] == "2026-01-01 00:00:03+00:00"
    assert (told["batch"], told["query"], told["attempt"], told["late"]) == (7, "orders", 1, False)


def test_k2_k3_a_batch_that_fails_for_good_fails_the_query_and_a_replay_sends_the_rest(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    once = sink(noting(fail_at, log, number=20, how="once"), max_batch_size=1)

    with pytest.raises(PySparkException, match="row 20 is not liked"):
        once(frame(spark, ROWS), 5)
    before = notes(log)
    # Nothing of the subject overtakes what has failed.
    assert taken(log, "a") == [[10]]

    once(frame(spark, ROWS), 5)

    assert {subject: taken(log, subject) for subject in "abc"} == {
        "a": [[10], [20], [30]],
        "b": [[11], [21], [31]],
        "c": [[12], [22], [32]],
    }
    assert once.last is not None
    assert once.last.replayed_rows == len(before)
    assert len({one["key"] for one in notes(log)}) == 9


def test_k3_the_key_is_the_same_each_time(spark: SparkSession, sink: Made, log: Path) -> None:
    sink(ledger=False)(frame(spark, ROWS), 5)
    sink(ledger=False)(frame(spark, ROWS).repartition(3), 5)

    keys = [one["key"] for one in notes(log)]
    assert sorted(keys[:3]) == sorted(keys[3:])


@pytest.mark.parametrize("how", ["once", "retry", "throttled"])
def test_what_fails_is_tried_again_before_anything_later_of_its_subject(
    spark: SparkSession, sink: Made, log: Path, how: str
) -> None:
    handler = noting(fail_at, log, number=20, how=how)
    made = sink(handler, max_batch_size=1, retry=(wait_fixed(0.01), stop_after_attempt(3)))

    made(frame(spark, ROWS), 0)

    assert taken(log, "a") == [[10], [20], [30]]
    assert made.last is not None
    assert (made.last.retries, made.last.throttled) == (1, int(how == "throttled"))


def test_dead_letters_go_to_a_function_and_the_rest_of_the_subject_goes_on(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    made = sink(
        noting(fail_at, log, number=20, how="reject"),
        max_batch_size=1,
        dead_letters=noting(take, tmp_path / "dead"),
    )

    made(frame(spark, ROWS), 0)

    assert taken(log, "a") == [[10], [30]]
    (dead,) = notes(tmp_path / "dead")
    assert (dead["numbers"], dead["reason"]) == ([20], "Reject: rejected: not wanted")
    assert made.last is not None
    assert (made.last.sent_rows, made.last.rejected_rows) == (8, 1)


def test_dead_letters_go_to_a_table_that_spark_reads(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "dead")
    made = sink(noting(fail_at, log, number=20), dead_letters=DeadLetterTable(place))

    made(frame(spark, ROWS), 3)
    made(frame(spark, ROWS), 3)

    dead = spark.read.parquet(place).orderBy("n").collect()
    assert [(row.n, row.dead_batch_id) for row in dead] == [(10, 3), (20, 3), (30, 3)]
    assert dead[0].dead_reason == "RuntimeError: row 20 is not liked"


def test_dead_letters_of_all_batches_are_of_one_type(
    spark: SparkSession, sink: Made, tmp_path: Path
) -> None:
    place = str(tmp_path / "dead")
    made = sink("tests.spark.test_subject_sink:refuse", dead_letters=DeadLetterTable(place))

    rows = frame(spark, ROWS).selectExpr(
        "*",
        "if(subject = 'a', null, 'x') as words",
        "if(subject = 'b', 1.5, 12345.5) as money",
        "cast(n as int) as small",
        "map('n', n) as map_",
    )
    made(rows, 0)

    dead = spark.read.parquet(place)
    assert dead.schema["money"].dataType == rows.schema["money"].dataType
    assert {row.n: (row.words, row.small, row.map_) for row in dead.collect()} == {
        row.n: (row.words, row.n, {"n": row.n}) for row in rows.collect()
    }


def test_k3_rows_that_differ_only_in_what_cannot_be_compared_have_one_order(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    numbers = [(n, {"n": n % 7, "m": n}) for n in range(40)]
    rows = spark.createDataFrame(numbers, "id long, m map<string, long>").selectExpr(
        "'a' as subject", "timestamp_seconds(1) as at", "m", "named_struct('m', m) as n"
    )
    for parts in (1, 3):
        sink("tests.spark.test_subject_sink:note_maps", query=f"{log}", ledger=False)(
            rows.repartition(parts).orderBy(functions.rand(parts)), 0
        )

    first, second = [one["maps"] for one in notes(log)]
    assert sorted(first) == sorted(one[1]["m"] for one in numbers)
    assert first == second


def refuse(rows: list[Any]) -> None:
    """Never takes any."""
    raise Reject("not wanted")


def note_maps(rows: list[Any], context: Any) -> None:
    """Notes its maps in the file that the query is called."""
    note(context.query, {"maps": [row["m"]["m"] for row in rows]})


def test_dead_letters_go_to_a_timeline_once(
    spark: SparkSession, sink: Made, log: Path, shared_redis: EmbeddedRedis
) -> None:
    target = DeadLetterTimeline(shared_redis.url, "dead")
    made = sink(noting(fail_at, log, number=20, how="reject"), dead_letters=target, ledger=False)

    made(frame(spark, ROWS), 3)
    made(frame(spark, ROWS), 3)

    timeline = Timeline(shared_redis.url, "dead")
    (lease,) = timeline.consumer("test").lease(10, 5)
    assert [row["n"] for row in lease.body["rows"]] == [10, 20, 30]
    assert lease.body["reason"] == "Reject: rejected: not wanted"
    timeline.close()


UNUSABLE: list[Row] = [(None, at(1), 1), ("a", None, 2), ("a", at(1), 3)]


def test_rows_without_subject_or_time_fail_the_query_or_are_rejected(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException, match=r"it has no (subject|time)"):
        sink()(frame(spark, UNUSABLE), 0)

    made = sink(dead_letters=noting(take, tmp_path / "dead"), query="others")
    made(frame(spark, UNUSABLE), 0)

    assert [one["numbers"] for one in notes(log)][-1] == [3]
    dead = {one["numbers"][0]: one["reason"] for one in notes(tmp_path / "dead")}
    assert dead == {1: "it has no subject", 2: "it has no time"}
    assert made.last is not None
    assert made.last.rejected_rows == 2


LATER: list[Row] = [("a", at(2), 1), ("a", at(3), 2), ("a", at(9), 3), ("d", at(1), 4)]


def test_k1_late_rows_are_sent_first_and_flagged(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    made = sink()
    made(frame(spark, ROWS), 0)
    made(frame(spark, LATER), 1)
    # A replay finds the same rows late, though the later ones were sent meanwhile.
    made(frame(spark, LATER), 1)

    told = [(one["numbers"], one["late"]) for one in notes(log) if one["batch"] == 1]
    assert sorted(told) == [([1], True), ([2, 3], False), ([4], False)]
    assert told.index(([1], True)) < told.index(([2, 3], False))


def test_k1_late_rows_are_rejected(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    made = sink(late="reject", dead_letters=noting(take, tmp_path / "dead"))
    made(frame(spark, ROWS), 0)
    made(frame(spark, LATER), 1)

    assert [one["numbers"] for one in notes(tmp_path / "dead")] == [[1]]
    assert sorted(one["numbers"] for one in notes(log) if one["batch"] == 1) == [[2, 3], [4]]
    assert made.last is not None
    assert (made.last.late_rows, made.last.rejected_rows) == (1, 1)


def test_late_hold_is_for_a_stream_that_was_held_back(spark: SparkSession, sink: Made) -> None:
    with pytest.raises(ValueError, match="hold_back"):
        sink(late="hold")(frame(spark, ROWS), 0)


@pytest.mark.parametrize(
    ("cost", "sum_"),
    [
        (2, 18.0),
        (0, 0.0),
        ("n", 189.0),
        ("n * 2 + 1", 387.0),
        (lambda row: row["n"] / 2, 94.5),
        ("column", 189.0),
    ],
)
def test_a_row_costs_what_was_said(spark: SparkSession, sink: Made, cost: Any, sum_: float) -> None:
    made = sink(cost=functions.col("n") if cost == "column" else cost)

    made(frame(spark, ROWS), 0)

    assert made.last is not None
    assert made.last.cost == sum_


def test_no_batch_costs_more_than_it_may(spark: SparkSession, sink: Made, log: Path) -> None:
    sink(cost="n", max_batch_cost=50)(frame(spark, ROWS), 0)

    assert taken(log, "a") == [[10, 20], [30]]
    assert taken(log, "c") == [[12, 22], [32]]


def test_a_cost_that_is_none_is_an_error(spark: SparkSession, sink: Made) -> None:
    with pytest.raises(PySparkException, match="the cost of a row of 'a' is null, negative"):
        sink(cost="if(n = 10, null, n)")(frame(spark, ROWS), 0)


def test_what_costs_more_than_there_ever_is_fails_with_a_hint(
    spark: SparkSession, sink: Made, shared_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    limiter = LimiterConfig(url=shared_redis.url, name="small", shared_capacity=2, factor=1)

    with pytest.raises(PySparkException, match="max_batch_cost"):
        sink(limiter=limiter)(frame(spark, ROWS), 0)

    dead = noting(take, tmp_path / "dead")
    sink(limiter=limiter, dead_letters=dead, query="others")(frame(spark, ROWS), 0)
    assert len(notes(tmp_path / "dead")) == 3


def test_k6_one_sequence_for_each_lane(spark: SparkSession, sink: Made, log: Path) -> None:
    lanes = frame(spark, ROWS).withColumn("kind", functions.expr("if(subject = 'a', 'x', 'y')"))
    made = sink(order="global", lane="kind", max_batch_size=3, rows="tuple")

    made(lanes.select("subject", "at", "kind", "n"), 0)

    assert taken(log, "x") == [[10, 20, 30]]
    assert [sorted(one) for one in taken(log, "y")] == [[11, 12], [21, 22], [31, 32]] or [
        sorted(one) for one in taken(log, "y")
    ] == [[11, 12, 21], [22, 31, 32]]


def test_k6_one_sequence_for_all(spark: SparkSession, sink: Made, log: Path) -> None:
    made = sink(order="global", max_batch_size=4)

    made(frame(spark, ROWS), 0)
    made(frame(spark, ROWS), 0)

    told = [one["numbers"] for one in notes(log)]
    assert [n // 10 for one in told for n in one] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert all(one["subject"] is None for one in notes(log))


def test_k4_an_empty_micro_batch_asks_nobody_for_capacity(
    spark: SparkSession, sink: Made, shared_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    limiter = LimiterConfig(url=shared_redis.url, name="idle", shared_capacity=100, factor=10)
    made = sink(limiter=limiter)

    made(frame(spark, []), 0)

    assert made.last is not None
    assert (made.last.rows, made.last.batches) == (0, 0)
    assert not [key for key in connect(shared_redis.url).keys() if b"idle" in key]  # noqa: SIM118


def test_nothing_is_held_between_micro_batches(
    spark: SparkSession, sink: Made, shared_redis: EmbeddedRedis
) -> None:
    limiter = LimiterConfig(url=shared_redis.url, name="orders", shared_capacity=1000, factor=10)

    sink(limiter=limiter)(frame(spark, ROWS), 0)

    from limiters import RedisLeaseManager

    manager = RedisLeaseManager(shared_redis.url, name="orders")
    view = manager.look()
    manager.close()
    assert view is not None
    assert view.free == ((0, view.partitions - 1),)


def test_the_driver_is_told_of_each_micro_batch_and_a_query_of_all(
    spark: SparkSession,
    sink: Made,
    shared_redis: EmbeddedRedis,
    connect: Callable[[str], Redis],
) -> None:
    told: list[MicroBatch] = []
    made = sink(on_micro_batch=told.append)
    made(frame(spark, ROWS), 0)
    made(frame(spark, LATER), 1)

    assert [(one.batch_id, one.rows, one.late_rows) for one in told] == [(0, 9, 0), (1, 4, 1)]
    assert "orders #1: 4 of 4 rows in 3 batches" in str(told[1])
    totals = connect(shared_redis.url).hgetall("dispatcher:spark:v1:{orders}:totals")
    assert float(totals[b"sent_rows"]) == 13
    assert float(totals[b"micro_batches"]) == 2
    assert connect(shared_redis.url).zrange("dispatcher:spark:v1:known", 0, -1) == [b"orders"]


def test_k7_a_sink_that_was_superseded_says_so(spark: SparkSession, sink: Made) -> None:
    first, second = sink(), sink()
    first(frame(spark, ROWS), 0)
    second(frame(spark, ROWS), 0)

    with pytest.raises(SupersededError, match="give each sink a query name of its own"):
        first(frame(spark, ROWS), 1)


def test_rows_of_who_is_not_registered_wait_for_whoever_registers_them(
    spark: SparkSession, sink: Made, log: Path, shared_redis: EmbeddedRedis
) -> None:
    store = RedisEntityStore(shared_redis.url, name="devices")
    with RegistrationGate(RedisEntityStore(shared_redis.url, name="devices")) as gate:
        gate.register("a")
        made = sink(gate=store, max_batch_size=2, rows="tuple")
        made(frame(spark, ROWS), 0)
        made(frame(spark, ROWS), 0)  # what waits does not wait twice

        assert {one["subject"] for one in notes(log)} == {"a"}
        assert made.last is not None
        assert (made.last.replayed_rows, made.last.held_rows) == (9, 0)
        (release,) = gate.register("b")
        assert [message["n"] for message in release.messages] == [11, 21, 31]

        made(frame(spark, [*LATER, ("b", at(5), 50)]), 1)
        assert taken(log, "b") == [[50]]
        assert made.last.held_rows == 1  # of d


def test_what_waits_costs_nothing(
    spark: SparkSession, sink: Made, log: Path, shared_redis: EmbeddedRedis
) -> None:
    made = sink(gate=RedisEntityStore(shared_redis.url, name="devices"), cost="n")

    made(frame(spark, ROWS), 0)

    assert made.last is not None
    assert (made.last.cost, made.last.held_rows, made.last.sent_rows) == (0, 9, 0)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"subject": ""}, "subject must be the name of a column"),
    ({"time": 5}, "time must be the name of a column"),
    ({"order": "some"}, "order must be 'subject' or 'global'"),
    ({"lane": "x"}, "lane needs order='global'"),
    ({"gate": 5}, "gate must be a RedisEntityStore"),
    ({"gate": RedisEntityStore("redis://x", name="x"), "order": "global"}, "gate needs order"),
    ({"late": "never"}, "late must be"),
    ({"late": "reject"}, "late='reject' needs dead_letters"),
    ({"late": "reject", "dead_letters": only_rows, "ledger": False}, "needs the ledger"),
    ({"rows": "pandas"}, "rows must be one of row, dict, tuple, arrow"),
    ({"max_batch_size": 0}, "max_batch_size"),
    ({"concurrency": 0}, "concurrency"),
    ({"cost": -1}, "cost"),
    ({"retry": 5}, "retry must be"),
    ({"dead_letters": 5}, "dead_letters must be"),
    ({"limiter": "redis://x"}, "limiter must be a LimiterConfig"),
    ({"redis": None}, "redis must say where"),
    ({"redis": "http://x"}, "redis"),
    ({"query": ""}, "query must be"),
    ({"lease_time": 0.1}, "lease_time must be at least 1"),
    ({"on_micro_batch": 5}, "on_micro_batch"),
    ({"partitions": 0}, "partitions"),
]


@pytest.mark.parametrize(("told", "said"), WRONG)
def test_wrong_arguments_are_refused_when_it_is_made(
    sink: Made, told: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        sink(**told)


@pytest.mark.parametrize("handler", [5, "send", None])
def test_what_is_no_handler_is_refused_when_it_is_made(
    shared_redis: EmbeddedRedis, handler: Any
) -> None:
    with pytest.raises(ValueError, match="handler must be"):
        SubjectSink(handler, subject="a", time="b", redis=shared_redis.url)


def test_a_handler_that_cannot_travel_is_refused_when_it_is_made(sink: Made) -> None:
    lock = threading.Lock()

    with pytest.raises(ValueError, match="handler cannot be sent to the executors"):
        sink(lambda rows: lock.acquire())


def test_a_handler_that_executors_cannot_import_fails_before_anything_is_sent(
    spark: SparkSession, sink: Made
) -> None:
    with pytest.raises(PySparkException, match=r"module 'no\.such' cannot be imported"):
        sink("no.such:handler")(frame(spark, ROWS), 0)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("1 as n, at, 'a' as subjects", "subject='subject' is not a column"),
        ("map('a', 1) as subject, at", "subject='subject' is a map"),
        ("1.5D as subject, at", "subject='subject' is a double"),
        pytest.param(
            "subject collate utf8_lcase as subject, at",
            "in which texts that differ are the same",
            marks=pytest.mark.spark4,
        ),
        ("subject, cast(at as string) as at", "time='at' is a string"),
        ("subject, n", "time='at' is not a column"),
    ],
)
def test_columns_that_cannot_serve_are_named_before_anything_is_sent(
    spark: SparkSession, sink: Made, columns: str, said: str
) -> None:
    frame(spark, ROWS).createOrReplaceTempView("rows")

    with pytest.raises(ValueError, match=said):
        sink()(spark.sql(f"select {columns} from rows"), 0)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date", "long", "double"])
def test_times_of_every_kind_are_kept_in_order(
    spark: SparkSession, sink: Made, log: Path, kind: str
) -> None:
    times = {
        "timestamp": "timestamp_seconds(n)",
        "timestamp_ntz": "cast(timestamp_seconds(n) as timestamp_ntz)",
        "date": "date_add(date'2026-01-01', cast(n as int))",
        "long": "n",
        "double": "cast(n as double) / 3",
    }
    rows = frame(spark, ROWS).withColumn("at", functions.expr(times[kind]))
    made = sink(max_batch_size=2)

    made(rows, 0)
    made(rows.where("n = 10"), 1)

    assert taken(log, "a") == [[10, 20], [30], [10]]
    assert [one["late"] for one in notes(log) if one["subject"] == "a"] == [False, False, True]


def test_it_runs_as_a_stream_under_the_name_of_its_query(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    frame(spark, ROWS).write.json(str(tmp_path / "rows"))
    made = sink(query=None)
    rows = spark.readStream.schema("subject string, at timestamp, n long").json(
        str(tmp_path / "rows")
    )

    query = (
        rows.writeStream.foreachBatch(made)
        .queryName("readings")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)

    assert made.last is not None
    assert made.last.query == "readings"
    assert (made.last.query_id, made.last.run_id) == (str(query.id), str(query.runId))
    assert sorted(n for one in notes(log) for n in one["numbers"]) == sorted(r[2] for r in ROWS)
