"""Decisions of the Timeline without a server."""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.timeline import Message
from dispatcher.timeline._encoding import bodies, ids, times
from dispatcher.timeline._encoding.layout import PARTS, Layout
from dispatcher.timeline._server.server_clock import ServerClock
from dispatcher.timeline.producer import given_in
from limiters import ArgumentError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.binary() | st.text() | JSON)
def test_a_body_comes_back_as_it_was(body: Any) -> None:
    back = bodies.decoded(bodies.encoded(body))
    assert back == body
    assert type(back) is type(body)


@pytest.mark.parametrize("body", [object(), {1, 2}, math.nan, {"at": datetime.now(UTC)}, [b"x"]])
def test_a_body_that_json_cannot_say_is_refused(body: Any) -> None:
    with pytest.raises(ValueError, match="body must be"):
        bodies.encoded(body)


def test_a_body_may_be_so_long_and_no_longer() -> None:
    bodies.encoded(b"x" * bodies.MOST_BYTES)
    with pytest.raises(ValueError, match=f"at most {bodies.MOST_BYTES} bytes, not 262145"):
        bodies.encoded(b"x" * (bodies.MOST_BYTES + 1))


@given(st.integers(0, ids.MOST_BUCKETS - 1), st.integers(0, 2**42 - 2), st.integers(1, 7))
def test_t1_generated_ids_carry_their_bucket(bucket: int, now_ms: int, count: int) -> None:
    made = ids.generated(bucket, now_ms, count)
    assert len(set(made)) == count
    assert {len(one) for one in made} == {20}
    assert {ids.bucket_of(one, bucket + 1) for one in made} == {bucket}
    assert max(made) < min(ids.generated(bucket, now_ms + 1, count))


@given(st.text(min_size=1, max_size=60).filter(lambda text: not text.startswith("~")))
def test_t1_the_bucket_of_a_natural_id_is_its_hash(name: str) -> None:
    bucket = ids.bucket_of(name, 64)
    assert 0 <= bucket < 64
    assert ids.bucket_of(name, 64) == bucket
    assert ids.as_text(ids.as_bytes(name)) == name


@pytest.mark.parametrize("name", ["", None, 7, "~short", "~" + "é" * 19, "x" * 256])
def test_what_is_no_id(name: Any) -> None:
    with pytest.raises(ValueError, match=r"^id must"):
        ids.bucket_of(name, 64)


def test_an_id_of_another_topic_is_noticed() -> None:
    (name,) = ids.generated(40, 0, 1)
    with pytest.raises(ValueError, match="of bucket 40, and the topic has only 16"):
        ids.bucket_of(name, 16)


def test_t2_times_are_rounded_up() -> None:
    moment = datetime(2026, 11, 18, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    assert times.epoch_ms("at", moment) == 1_794_999_600_001
    assert times.epoch_ms("at", 1_794_999_600_000.2) == 1_794_999_600_001
    assert times.when(None, 0.0001) == (True, 1)
    assert times.when(None, 1.1) == (True, 1100)
    assert times.when(None, timedelta(minutes=1)) == (True, 60_000)
    assert times.when(None, None) == (True, 0)


@pytest.mark.parametrize(
    ("at", "delay", "says"),
    [
        (1_794_999_600, None, "looks like seconds"),
        (1_794_999_600.5, None, "looks like seconds"),
        (1_794_999_600_000_000, None, "looks like micro"),
        (10**400, None, "so large a number looks like micro"),
        pytest.param(-(10**5000), None, "so large a number looks", id="too long to be written"),
        (datetime(2026, 11, 18), None, "time zone"),
        ("tomorrow", None, "at must be a datetime or epoch milliseconds, not 'tomorrow'"),
        (True, None, "at must be"),
        (math.nan, None, "at must be"),
        (None, -1, "delay must be zero or more seconds, not -1"),
        (None, 1_794_999_600_000, "delay must be at most ten years"),
        (1_794_999_600_000, 1, "delay must be left out"),
    ],
)
def test_a_time_in_another_unit_is_noticed(at: Any, delay: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        times.when(at, delay)


def test_a_message_is_due_at_a_time_or_after_a_delay_and_not_both() -> None:
    with pytest.raises(ValueError, match="delay must be left out if there is an at, not 0"):
        Message("hello", at=1_794_999_600_000, delay=0)


def test_t11_all_keys_of_a_bucket_share_a_hash_tag() -> None:
    layout = Layout("d", "my topic/ü")
    tags = {key.partition(b"{")[2].partition(b"}")[0] for key in layout.keys(7)}
    assert tags == {b"my%20topic%2F%C3%BC/7"}
    assert len(set(layout.keys(7))) == len(PARTS)
    assert layout.some([1, 2], "dead") == [layout.keys(1)[5], layout.keys(2)[5]]


def test_t12_drift_is_measured_and_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    now, wall = [100.0], [1_000_005.0]
    clock = ServerClock("redis://here", lambda: now[0], lambda: wall[0])
    assert clock.drift is None
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.learn(100.0, 100.0, 1_000_000_000_000)
    assert clock.drift == pytest.approx(5.0)
    assert [record.getMessage() for record in caplog.records] == [
        "the clock of this machine is 5.000 s ahead of that of Redis at redis://here; times that "
        "are given as such are off by that, delays and leases are not"
    ]
    wall[0] = 1_000_000.2
    clock.learn(100.0, 100.0, 1_000_000_000_000)
    wall[0] = 999_990.0
    clock.learn(100.0, 100.0, 1_000_000_000_000)
    assert [record.getMessage()[29:44] for record in caplog.records[1:]] == ["10.000 s behind"]


def test_t12_it_is_never_before_the_servers_last_answer() -> None:
    now, wall = [50.0], [0.0]
    clock = ServerClock("", lambda: now[0], lambda: wall[0])
    clock.learn(50.0, 50.002, 1_000_000)
    now[0] = 60.1
    clock.learn(60.0, 60.1, 11_100_000)  # as it was sent back immediately, its time is now
    assert clock.now_ms() >= 11_100
    clock.learn(60.0, 60.1, 5_000_000)  # the server's clock was set back
    assert clock.now_ms() == pytest.approx(5_050, abs=51)


def test_t12_the_answer_that_took_least_time_counts() -> None:
    now, wall = [50.0], [0.0]
    clock = ServerClock("", lambda: now[0], lambda: wall[0])
    clock.learn(50.0, 50.002, 1_000_000)
    clock.learn(50.1, 50.9, 1_600_000)  # a slow one that agrees
    assert clock.now_ms() == pytest.approx(999.0)
    clock.learn(51.0, 51.8, 9_000_000)  # a slow one that does not: the server's clock was set
    assert clock.now_ms() == pytest.approx((9.0 - 51.4 + 50.0) * 1000)


@pytest.mark.parametrize("wrong", [None, 5, b"id"])
def test_what_is_no_id_is_refused_by_its_name(wrong: object) -> None:
    with pytest.raises(ArgumentError, match="messages must be an id, or several of them"):
        given_in(wrong)
