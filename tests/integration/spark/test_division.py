"""Law K8: each run of a micro-batch divides it in the same way as the first one. A real Redis."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from dispatcher.spark import ChangedSinkError, LedgerError
from dispatcher.spark._ledger import claims
from dispatcher.spark._ledger.claims import Place, QueryRun, SendClaim
from dispatcher.spark._ledger.division import Division
from dispatcher.spark._ledger.entry import LedgerEntry
from dispatcher.spark._ledger.sender import Sender
from dispatcher.spark._most_cost import MostCost
from limiters.embedded import EmbeddedRedis
from tests.waiting import LONG

FIRST = Division(4, 500, MostCost.of(20_000))
OTHER = Division(2, 100)
VECTOR = Division(3, 50, MostCost.of({"tokens": 0.1, "a=b, c%": 0, "requests": 600}))


@pytest.fixture
def place(shared_redis: EmbeddedRedis) -> Place:
    return Place(shared_redis.url, "test", "orders {eu}", "checkpoint-1")


def claimed(place: Place, batch: int, division: Division | None) -> SendClaim:
    redis = claims.Redis(place, patience=LONG)
    options = {"signature": "s", "time_kind": "number"}
    try:
        return QueryRun().claim(
            redis, place, batch, lease=30.0, remember=1_000, division=division, **options
        )
    finally:
        redis.close()


@pytest.mark.parametrize("division", [FIRST, OTHER, VECTOR, Division(1, 1, MostCost.of(5))])
def test_k8_a_division_is_read_as_it_was_written(division: Division) -> None:
    assert Division.read(division.written()) == division
    assert Division.read("") is None


def test_k8_a_replay_uses_the_division_with_which_the_micro_batch_was_begun(
    place: Place,
) -> None:
    assert claimed(place, 7, FIRST).division == FIRST
    assert claimed(place, 7, OTHER).division == FIRST
    assert claimed(place, 8, OTHER).division == OTHER
    assert claimed(place, 9, VECTOR).division == VECTOR
    assert claimed(place, 9, FIRST).division == VECTOR


def test_k8_a_micro_batch_begun_without_packs_has_none_in_a_replay(place: Place) -> None:
    claimed(place, 7, FIRST)

    assert claimed(place, 7, None).division is None
    assert claimed(place, 7, OTHER).division == FIRST
    assert claimed(place, 8, None).division is None
    assert claimed(place, 8, FIRST).division is None, "it was begun without"


def test_k8_a_micro_batch_of_an_older_version_goes_on_by_subjects(
    place: Place, connect: Callable[[str], Redis]
) -> None:
    client = connect(place.url)
    claimed(place, 7, None)
    # an older version had no such field
    client.hdel(place.key("stream", place.checkpoint), "division")

    assert claimed(place, 7, FIRST).division is None
    assert claimed(place, 7, FIRST).division is None
    assert claimed(place, 8, FIRST).division == FIRST


def test_k8_the_division_of_an_earlier_micro_batch_is_not_used_for_a_later_one(
    place: Place, connect: Callable[[str], Redis]
) -> None:
    claimed(place, 7, FIRST)
    # An older version goes on, and leaves the field as it was.
    connect(place.url).hset(place.key("stream", place.checkpoint), "batch", "8")

    assert claimed(place, 8, FIRST).division is None


def test_k8_packs_by_unknown_rules_are_refused(
    place: Place, connect: Callable[[str], Redis]
) -> None:
    claimed(place, 7, FIRST)
    client, stream = connect(place.url), place.key("stream", place.checkpoint)

    client.hset(stream, "division", "7 99 what it may be")
    with pytest.raises(ChangedSinkError, match="packs by rules 99, and this one has rules 1 and 2"):
        claimed(place, 7, FIRST)
    assert claimed(place, 7, None).division is None
    for damaged in (
        "1 0 500 -",
        "1 4 500 tokens=1.0",
        "2 4 500 7.0",
        "2 4 500 tokens",
        "2 4 500 a=b",
    ):
        client.hset(stream, "division", f"7 {damaged}")
        with pytest.raises(LedgerError, match="damaged"):
            claimed(place, 7, FIRST)


@pytest.mark.parametrize("subjects", [3, 700, 6_000])
def test_k8_any_number_of_subjects_of_a_batch_is_acknowledged_together(
    place: Place, subjects: int
) -> None:
    entries = {b"=%d" % number: LedgerEntry(7, 1, None, 10) for number in range(subjects)}
    with Sender(claimed(place, 7, FIRST), "0", patience=LONG) as sending:
        sending.acknowledge(entries).result()
        assert sending.look_up(list(entries)) == entries

    assert claimed(place, 7, FIRST).acknowledged == subjects


def test_k8_a_pack_is_marked_as_sent_by_subjects_in_its_micro_batch_only(
    place: Place,
) -> None:
    with Sender(claimed(place, 7, FIRST), "0", patience=LONG) as sending:
        assert not sending.is_divided(b"=a 0")
        sending.divide(b"=a 0").result()

    again = claimed(place, 7, FIRST)
    assert again.acknowledged == 0
    with Sender(again, "0", patience=LONG) as sending:
        assert sending.is_divided(b"=a 0")
        assert not sending.is_divided(b"=b 0")
    with Sender(claimed(place, 8, FIRST), "0", patience=LONG) as sending:
        assert not sending.is_divided(b"=a 0")
