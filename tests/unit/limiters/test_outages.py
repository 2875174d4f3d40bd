"""Who says that a server is away: the first that notices, and of each outage once."""

from __future__ import annotations

from logging import DEBUG, WARNING

from limiters._support.outages import Outages


def test_the_first_that_notices_says_so_loudly_and_the_first_that_is_answered() -> None:
    outages = Outages()
    assert [outages.began("one") for _ in range(3)] == [WARNING, DEBUG, DEBUG]
    assert outages.began("another") == WARNING, "of each server"
    assert [outages.ended("one") for _ in range(2)] == [WARNING, DEBUG]
    assert outages.began("one") == WARNING, "the next outage"


def test_what_was_asked_before_says_nothing_of_now() -> None:
    outages = Outages()
    before = 0.0  # long before this machine was started, by its monotonic clock
    assert outages.ended("one", before) == DEBUG, "it was never away"
    assert outages.began("one") == WARNING
    assert outages.ended("one", before) == DEBUG, "its answer was under way when others got none"
    assert outages.ended("one") == WARNING
    assert outages.began("one", before) == DEBUG, "it waited for long, and failed at last"
    assert outages.began("one") == WARNING
