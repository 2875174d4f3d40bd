"""One of several users reports what is wrong with a server: the first that notices, each thing
once."""

from __future__ import annotations

import logging
from logging import DEBUG, WARNING

import pytest
from redis import exceptions
from redis.exceptions import AuthenticationError, ResponseError

from limiters._redis.faults import AWAY, cause_of, is_misaddressed
from limiters._redis.outages import Outage, Outages

NOW = float("inf")


def test_the_first_that_notices_says_so_loudly_and_the_first_that_is_answered() -> None:
    outages = Outages()
    parts = "a", "b", "c"
    assert [outages.began("one", it, AWAY) for it in parts] == [WARNING, DEBUG, DEBUG]
    assert outages.began("another", "a", AWAY) == WARNING, "of each server"
    assert [outages.ended("one", it) for it in parts] == [WARNING, DEBUG, DEBUG]
    assert outages.began("one", "c", AWAY) == WARNING, "the next outage"


def test_what_was_asked_before_says_nothing_of_now() -> None:
    outages = Outages()
    before = 0.0  # long before this machine was started, by its monotonic clock
    assert outages.ended("one", "a", before) == DEBUG, "it was never away"
    assert outages.began("one", "a", AWAY) == WARNING
    assert outages.ended("one", "a", before) == DEBUG, "it was under way when others got no answer"
    assert outages.ended("one", "a") == WARNING
    assert outages.began("one", "a", AWAY, before) == DEBUG, (
        "it waited for long, and failed at last"
    )
    assert outages.began("one", "a", AWAY) == WARNING


def test_what_is_refused_to_one_part_is_over_when_that_part_is_served() -> None:
    outages = Outages()
    assert outages.began("one", "limit", "WRONGTYPE") == WARNING
    assert outages.ended("one", "topic") == DEBUG, (
        "it never stopped, and the limit is still refused"
    )
    assert outages.began("one", "topic", AWAY) == WARNING
    assert outages.ended("one", "limit") == WARNING
    assert outages.ended("one", "topic") == DEBUG


def test_another_cause_is_another_line() -> None:
    outages = Outages()
    assert outages.began("one", "limit", "NOREPLICAS") == WARNING
    assert outages.began("one", "limit", "NOREPLICAS") == DEBUG
    assert outages.began("one", "limit", "BUSY") == WARNING
    assert outages.began("one", "limit", AWAY) == WARNING
    assert outages.began("one", "limit", "BUSY") == WARNING, "the server is back, and refuses"
    assert outages.began("one", "limit", "BUSY") == DEBUG


def test_refusals_and_absences_in_turns_are_each_reported() -> None:
    outages = Outages()
    for _ in range(3):
        assert outages.began("one", "limit", "NOPERM") == WARNING
        assert outages.began("one", "limit", AWAY) == WARNING
        assert outages.began("one", "topic", AWAY) == DEBUG
    assert outages.began("one", "limit", "NOPERM") == WARNING
    assert outages.ended("one", "topic") == WARNING, "the first that is served again"
    assert outages.ended("one", "limit") == WARNING
    assert outages.ended("one", "topic") == outages.ended("one", "limit") == DEBUG


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (exceptions.ConnectionError("Error 111 connecting to db. Connection refused."), AWAY),
        (exceptions.ConnectionError("Connection closed by server."), AWAY),
        (ResponseError("LOADING Redis is loading the dataset in memory"), AWAY),
        (ResponseError("MASTERDOWN Link with MASTER is down"), AWAY),
        (OSError(99, "Cannot assign requested address"), AWAY),
        (AuthenticationError("WRONGPASS invalid username-password pair"), "WRONGPASS"),
        (ResponseError("NOREPLICAS Not enough good replicas to write."), "NOREPLICAS"),
        (ResponseError("BUSY Redis is busy running a script."), "BUSY"),
        (ZeroDivisionError(), "ZeroDivisionError"),
    ],
    ids=lambda it: it if isinstance(it, str) else type(it).__name__,
)
def test_what_ends_by_itself_when_the_server_is_there_is_one_cause(
    error: Exception, cause: str
) -> None:
    assert cause_of(error) == cause


def test_a_server_of_another_kind_is_not_waited_for() -> None:
    assert is_misaddressed(ResponseError("unknown command 'SENTINEL', with args beginning with:"))
    assert not is_misaddressed(exceptions.ConnectionError("Connection refused"))


def test_a_user_reports_each_cause_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(DEBUG)
    outage = Outage(logging.getLogger("test"), "redis://of-this-test", "topic jobs", topic="jobs")
    away, refused = (
        exceptions.ConnectionError("Connection refused"),
        AuthenticationError("WRONGPASS"),
    )
    outage.ended(NOW, "nothing was wrong")
    for error in (away, exceptions.ConnectionError("Connection closed"), refused, refused):
        outage.began(error, NOW, "waits: %s", error)
    outage.ended(NOW, "goes on")
    outage.ended(NOW, "goes on")
    assert [(it.levelno, it.message) for it in caplog.records] == [
        (WARNING, "waits: Connection refused"),
        (WARNING, "waits: WRONGPASS"),
        (WARNING, "goes on"),
    ]
    assert vars(caplog.records[0])["topic"] == "jobs"
