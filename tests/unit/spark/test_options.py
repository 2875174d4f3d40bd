"""Options of the Spark side: each is declared once, and everything else follows from that."""

from __future__ import annotations

import inspect
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from dispatcher.spark import (
    EventTimeSink,
    LimiterConfig,
    SubjectSink,
    dispatch,
    event_time_batches,
    hold_back,
)
from dispatcher.spark._ledger.division import Division
from dispatcher.spark._most_cost import MostCost
from dispatcher.spark._options import DeliveryOptions, SizeOptions, prices_of
from dispatcher.spark._rows.expressions import Expression
from dispatcher.spark.sinks.unordered import BackFillOptions, UnorderedSink, sink_of
from dispatcher.spark.stateful._options import EventTimeOptions, HoldBackOptions
from limiters import ArgumentError
from limiters._support.options import options_of

HANDLER = "tests.spark.handlers:only_rows"
SHOWN: dict[Any, Any] = {
    SubjectSink: SubjectSink,
    EventTimeSink: EventTimeSink,
    dispatch: BackFillOptions,
    event_time_batches: EventTimeOptions,
    hold_back: HoldBackOptions,
}
"""The classes and functions of users, and the classes that declare their options."""


@pytest.mark.parametrize("cls", [UnorderedSink, *SHOWN.values()])
def test_every_option_has_a_help_text_and_a_check(cls: Any) -> None:
    options = options_of(cls).values()

    assert [one.name for one in options if not one.help or one.help.endswith(".")] == []
    assert [one.name for one in options if one.check is None] == []


@pytest.mark.parametrize("shown", SHOWN)
def test_every_option_is_in_the_signature_and_in_the_docstring(shown: Any) -> None:
    names = options_of(SHOWN[shown])
    first = set() if inspect.isclass(shown) else {"df"}

    assert {*names} | first == {*inspect.signature(shown).parameters}
    for name in names:
        assert f"\n* `{name}`" in (shown.__doc__ or "")


def test_the_error_for_an_unknown_option_of_dispatch_names_dispatch() -> None:
    wrong: Any = {"subjct": "meter"}

    with pytest.raises(TypeError, match=r"^dispatch\(\) got an unexpected .*'subjct'"):
        dispatch(None, HANDLER, **wrong)  # type: ignore[arg-type]


def test_options_of_a_back_fill_are_those_of_the_sink_that_it_makes() -> None:
    options: dict[str, Any] = {"concurrency": 3, "patience": 7}
    sink = sink_of(BackFillOptions(HANDLER, subject="meter", time="at", **options))

    assert isinstance(sink, SubjectSink)
    assert (sink.subject, sink.time, sink.query) == ("meter", "at", "dispatch")
    assert (sink.concurrency, sink.patience, sink.ledger) == (3, 7, False)
    assert isinstance(sink_of(BackFillOptions(HANDLER)), UnorderedSink)


def test_a_sink_can_be_pickled_with_its_options_and_shows_no_secrets() -> None:
    url = "redis://:secret@db:6379/0"
    limiter = LimiterConfig(url=url, name="orders", shared_capacity=20_000, factor=100)
    sink = EventTimeSink(HANDLER, limiter=limiter, redis=url, query="orders", lease_time=2)

    received: EventTimeSink = pickle.loads(pickle.dumps(sink))

    assert (received.limiter, received.query, received.lease_time) == (limiter, "orders", 2)
    assert received.last is None
    assert "secret" not in repr(sink)


@pytest.mark.spark4
def test_every_option_that_has_a_text_form_is_an_option_of_the_format() -> None:
    from dispatcher.spark.sinks.data_source import LIMIT, ORDER, SENDING, DispatcherDataSource

    assert {"handler", "maxBatchSize", "deadLetters", "patience"} <= set(SENDING)
    assert {"redis", "limit", "sharedCapacity", "leaseTime"} <= set(LIMIT)
    written = {
        one.name
        for family in (DeliveryOptions, SizeOptions)
        for one in options_of(family).values()
        if one.kind is not None
    }
    assert {option.name for option in SENDING.values()} == written
    for name in SENDING | LIMIT | ORDER:
        assert f"\n* `{name}`" in (DispatcherDataSource.__doc__ or "")


READINGS = StructType([StructField("device", StringType()), StructField("at", DoubleType())])
IN_ORDER = {"handler": HANDLER, "subject": "device", "time": "at"}


@pytest.mark.spark4
def test_k8_the_format_packs_subjects_by_default() -> None:
    from dispatcher.spark.sinks.data_source import job_of

    packed = job_of({**IN_ORDER, "maxBatchSize": "30", "maxBatchCost": "7"}, READINGS)
    assert packed.division == Division(1, 30, MostCost.of(7))
    assert (packed.columns.sequence, packed.columns.time) == ("device", "at")
    alone = job_of({**IN_ORDER, "pack": "false"}, READINGS)
    assert (alone.division, alone.cut.same_subject) == (None, True)
    global_ = job_of({**IN_ORDER, "order": "global"}, READINGS)
    assert (global_.columns.sequence, global_.columns.subject) == (None, "device")
    plain = job_of({"handler": HANDLER}, READINGS)
    assert (plain.division, plain.cut.in_order) == (None, False)
    assert not any(job.repeatable for job in (packed, alone, global_, plain))


@pytest.mark.spark4
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subject": "device"}, "time must go with 'subject'"),
        ({"pack": "false"}, "subject must go with 'pack'"),
        ({"subject": "devices", "time": "at"}, "subject must .*'devices'"),
        ({"subject": "device", "time": "device"}, "time must .*'device'"),
        ({"subject": "device", "time": "at", "order": "some"}, "order must be 'subject' or"),
        ({"subject": "device", "time": "at", "pack": "no"}, "pack must be true or false"),
    ],
)
def test_an_order_that_the_format_cannot_keep_is_refused(
    options: dict[str, str], message: str
) -> None:
    from dispatcher.spark.sinks.data_source import job_of

    with pytest.raises(ArgumentError, match=message):
        job_of({"handler": HANDLER, **options}, READINGS)


@pytest.mark.spark4
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "handler must name a function"),
        ({"handler": "x"}, "handler must be a callable or 'module:function'"),
        (
            {"handler": HANDLER, "maxBatchsize": "5", "limt": "x"},
            "option must be one of .*, not 'limt'",
        ),
        (
            {"handler": HANDLER, "concurrency": "many"},
            "concurrency must be a whole number, not 'many'",
        ),
        ({"handler": HANDLER, "maxBatchSize": "0"}, "maxBatchSize must be at least 1, not 0"),
        ({"handler": HANDLER, "reservedCapacity": "-1"}, "reservedCapacity must be zero or more"),
        ({"handler": HANDLER, "maxAttempts": "3"}, "maxAttempts must go with 'retryWait'"),
        ({"handler": HANDLER, "retryWait": "-1"}, "retryWait must be zero or more seconds"),
        ({"handler": HANDLER, "costColumn": "m"}, "costColumn must be a column, not 'm'"),
        ({"handler": HANDLER, "cost": "m * 2"}, "cost must be a column of the DataFrame, not 'm'"),
        ({"handler": HANDLER, "cost": "id ** 2"}, "cost must be made of numbers, names of columns"),
        ({"handler": HANDLER, "cost": "a=1, a=2"}, "cost must name each dimension once"),
        ({"handler": HANDLER, "batchCost": "a=some"}, "batchCost must be a number, not 'some'"),
        ({"handler": HANDLER, "batchCost": "a"}, "batchCost must be a number, not 'a'"),
        (
            {"handler": HANDLER, "redis": "redis://db", "limit": "x", "sharedCapacity": "a=five"},
            "sharedCapacity must have an amount and its window for a, as in a=600/60s",
        ),
        (
            {"handler": HANDLER, "sharedCapacity": "5"},
            "sharedCapacity must go with 'limit'",
        ),
    ],
)
def test_wrong_options_of_the_format_are_refused(options: dict[str, str], said: str) -> None:
    from dispatcher.spark.sinks.data_source import job_of

    with pytest.raises(ArgumentError, match=said):
        job_of(options, StructType([StructField("id", LongType())]))


API = {
    "handler": HANDLER,
    "redis": "redis://db",
    "limit": "x",
    "sharedCapacity": "requests=600/60s,tokens=90000/60s,calls=20slots",
}


@pytest.mark.spark4
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "cost must say of which dimension it is"),
        ({"cost": "id"}, "cost must say of .*, not 'id'; .* or requests=... where it is a text"),
        ({"costColumn": "id"}, "costColumn must be left out .*; name it in cost, as in 'requests="),
        ({"cost": "tokens=id"}, "batchCost must name calls, .* or calls=1 where it is a text"),
        ({"cost": "bytes=1"}, "cost must be of requests, tokens and calls alone"),
        ({"cost": "tokens=text", "batchCost": "calls=1"}, "cost must be a column that is a number"),
        ({"cost": "tokens=1", "batchCost": "1"}, "batchCost must say of which dimension it is"),
        ({"cost": "tokens=1", "batchCost": "calls=21"}, "batchCost must be at most 20 of calls"),
        ({"cost": "tokens=1", "maxBatchCost": "5"}, "maxBatchCost must say of which dimension"),
        ({"cost": "tokens=1", "factor": "5"}, "factor must be left out"),
        ({"sharedCapacity": "5", "cost": "a=1"}, "cost must be a number: the limit has one"),
    ],
)
def test_v_wrong_costs_of_several_dimensions_are_refused_by_the_format(
    options: dict[str, str], said: str
) -> None:
    from dispatcher.spark.sinks.data_source import job_of

    schema = StructType([StructField("id", LongType()), StructField("text", StringType())])
    with pytest.raises(ArgumentError, match=said):
        job_of({**API, **options}, schema)
    good = job_of({**API, "cost": "tokens=id", "batchCost": "requests=1,calls=1"}, schema)
    assert sorted(good.dimensions) == ["calls", "requests", "tokens"]


@pytest.mark.spark4
def test_without_a_limit_the_format_shows_wrong_amounts_as_they_were_given() -> None:
    from dispatcher.spark.sinks.data_source import job_of

    with pytest.raises(ArgumentError, match=r"batchCost must be a number, .*, not \{'a': 1"):
        job_of({"handler": HANDLER, "batchCost": "a=1"}, StructType([]))


@pytest.mark.spark4
def test_the_format_refuses_two_costs_of_a_row() -> None:
    from dispatcher.spark.sinks.data_source import job_of

    schema = StructType([StructField("weight", DoubleType())])
    options = {"handler": HANDLER, "cost": "5", "costColumn": "weight"}
    with pytest.raises(ArgumentError, match="cost must be left out where there is a costColumn"):
        job_of(options, schema)
    del options["cost"]
    assert job_of(options, schema).columns.costs == {"": Expression("`weight`")}


@pytest.mark.parametrize("cost", [2, 2.0, Decimal(2), Fraction(2), np.int64(2), np.float32(2)])
def test_a_cost_may_be_any_kind_of_number(cost: Any) -> None:
    options = BackFillOptions(HANDLER, cost=cost)
    assert prices_of(options).of_tasks == {"": 2}
    assert type(prices_of(options).of_tasks[""]) is float
