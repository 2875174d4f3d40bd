"""Law K7: of all processes that could send for a query, only those of the last claim do. A real
Redis."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from dispatcher.spark import (
    ChangedSinkError,
    LedgerError,
    MovedCheckpointError,
    SparkSinkError,
    SupersededError,
)
from dispatcher.spark._ledger import claims
from dispatcher.spark._ledger.claims import KEPT_MS, Place, QueryRun, SendClaim, finish
from dispatcher.spark._ledger.entry import LedgerEntry
from dispatcher.spark._ledger.sender import Sender
from limiters.embedded import EmbeddedRedis
from tests.servers.proxy import Proxy
from tests.waiting import LONG, until

LEASE = 1.0
LONG_LEASE = 30.0
"""A lease that does not end during a test, even on a slow machine."""
DAY = 86_400.0


@pytest.fixture
def place(shared_redis: EmbeddedRedis) -> Place:
    return Place(shared_redis.url, "test", "orders {eu}", "checkpoint-1")


def claimed(
    place: Place,
    batch: int,
    run: QueryRun | None = None,
    *,
    signature: str = "s",
    time_kind: str = "number",
    lease: float = LONG_LEASE,
    remember: float = DAY,
) -> SendClaim:
    redis = claims.Redis(place, patience=LONG)
    try:
        return (run or QueryRun()).claim(
            redis,
            place,
            batch,
            signature=signature,
            time_kind=time_kind,
            lease=lease,
            remember=remember,
        )
    finally:
        redis.close()


def finished(claim: SendClaim, **sums: float) -> None:
    redis = claims.Redis(claim.place, patience=LONG)
    finish(redis, claim, sums)
    redis.close()


def sender(claim: SendClaim, slot: str = "0") -> Sender:
    return Sender(claim, slot, patience=LONG)


def _until_it_is_superseded(old: Sender) -> None:
    """Call `may_begin` until it raises. It does when the sender renews its permission, or stores
    something."""
    while True:
        old.may_begin()
        time.sleep(0.01)


def test_k3_a_replay_finds_what_was_acknowledged(place: Place) -> None:
    with sender(claimed(place, 7)) as first:
        first.acknowledge({b"=a": LedgerEntry(7, 3, None, 30)}).result()
        first.acknowledge({b"=b": LedgerEntry(7, 1, 5, 10)}).result()

    with sender(claimed(place, 7)) as second:
        found = second.look_up([b"=a", b"=b", b"=c"])

    assert found == {
        b"=a": LedgerEntry(7, 3, None, 30),
        b"=b": LedgerEntry(7, 1, 5, 10),
        b"=c": LedgerEntry(),
    }


def test_k3_a_claim_has_the_number_of_sequences_with_acknowledged_rows(place: Place) -> None:
    first = claimed(place, 7)
    with sender(first) as sending:
        for rows in (1, 2):
            sending.acknowledge({b"=a": LedgerEntry(7, rows, None, 30)}).result()
        both = [sending.acknowledge({name: LedgerEntry(7, 1, None, 30)}) for name in (b"=b", b"=c")]
        for written in both:
            written.result()

    again = claimed(place, 7)
    with sender(again) as sending:
        sending.acknowledge({b"=a": LedgerEntry(7, 3, None, 30)}).result()
        # An acknowledgement of an earlier micro-batch does not count for this one.
        sending.acknowledge({b"=old": LedgerEntry(6, 3, None, 30)}).result()

    numbers = [claimed(place, batch).acknowledged for batch in (7, 8)]
    assert [first.acknowledged, again.acknowledged, *numbers] == [0, 3, 3, 0]


def test_k7_each_refusal_raises_a_new_error(place: Place) -> None:
    depths: list[int] = []
    with sender(claimed(place, 7)) as stopped:
        stopped._problem = SupersededError("another run sends")
        for _ in range(50):
            with pytest.raises(SupersededError) as caught:
                stopped.may_begin()
            depths.append(len(caught.traceback))
            assert caught.value.__cause__ is stopped._problem
    assert max(depths) < 10


def test_k7_a_task_of_an_older_claim_begins_nothing_after_a_newer_claim(
    place: Place, connect: Callable[[str], Redis]
) -> None:
    with sender(claimed(place, 7, lease=6)) as old:
        assert old.may_begin()
        done = threading.Event()
        newer: list[SendClaim] = []

        def take_over() -> None:
            newer.append(claimed(place, 7))
            done.set()

        thread = threading.Thread(target=take_over)
        thread.start()
        with pytest.raises(SupersededError, match="a newer run of query"):
            _until_it_is_superseded(old)
        # Calls that it has begun go on, and are acknowledged. Until it leaves, no other sender
        # begins.
        old.acknowledge({b"=a": LedgerEntry(7, 1, None, 1)}).result()
        ends: set[float] = set()

        def is_prolonged_twice() -> bool:
            senders: Any = connect(place.url).zrange(place.key("senders"), 0, -1, withscores=True)
            ends.update(end for _, end in senders)
            return len(ends) > 2

        until(is_prolonged_twice)
        assert not done.is_set()
    thread.join()

    with sender(newer[0]) as new:
        assert new.look_up([b"=a"])[b"=a"].acknowledged(7) == 1


def test_k7_a_successor_waits_for_a_task_that_was_killed_no_longer_than_its_lease(
    place: Place,
) -> None:
    dead = sender(claimed(place, 7, lease=LEASE))
    assert dead._join() == 0  # it never renews its permission, and never leaves

    newer: list[SendClaim] = []
    threading.Thread(target=lambda: newer.append(claimed(place, 7)), daemon=True).start()
    until(lambda: newer)

    assert not dead.may_begin()


def test_k7_a_second_attempt_at_the_same_part_waits_for_the_first(place: Place) -> None:
    claim = claimed(place, 7)
    found: list[LedgerEntry] = []
    with sender(claim, "3") as first, sender(claim, "4"):

        def speculate() -> None:
            with sender(claim, "3") as second:
                found.append(second.look_up([b"=a"])[b"=a"])

        thread = threading.Thread(target=speculate)
        thread.start()
        thread.join(0.2)
        first.acknowledge({b"=a": LedgerEntry(7, 5, None, 1)}).result()
        assert not found
    thread.join()

    assert found == [LedgerEntry(7, 5, None, 1)]


def test_k7_an_attempt_that_was_replaced_while_it_hung_does_not_come_back(place: Place) -> None:
    claim = claimed(place, 7, lease=LEASE)
    hung = sender(claim, "3")
    assert hung._join() == 0  # it does not renew its permission

    with sender(claim, "3") as second:  # waits until the permission of the other has ended
        second.acknowledge({b"=a": LedgerEntry(7, 5, None, 1)}).result()
    hung._join()

    with pytest.raises(SupersededError, match="another attempt"):
        hung.may_begin()
    with sender(claim, "3") as third:
        assert third.look_up([b"=a"]) == {b"=a": LedgerEntry(7, 5, None, 1)}


def test_k7_a_sender_whose_place_was_not_taken_comes_back(place: Place) -> None:
    claim = claimed(place, 7, lease=LEASE)
    with sender(claim, "3"):
        pass
    hung = sender(claim, "3")
    assert hung._join() == 0
    until(lambda: not hung.may_begin())

    until(lambda: hung._join() == 0 and hung.may_begin())


def test_a_run_that_was_superseded_can_claim_nothing_more(place: Place) -> None:
    old, new = QueryRun(), QueryRun()
    claimed(place, 7, old)
    claimed(place, 8, new)

    with pytest.raises(SupersededError, match="give each sink a query name of its own"):
        claimed(place, 8, old)
    claimed(place, 9, new)


def test_the_error_of_two_sinks_with_one_name_names_the_other_checkpoint(place: Place) -> None:
    first, second = QueryRun(), QueryRun()
    claimed(place, 0, first)
    other = Place(place.url, place.prefix, place.query, "checkpoint-2")
    claimed(other, 0, second)

    with pytest.raises(SupersededError, match="with another checkpoint \\(checkpoint-2\\)"):
        claimed(place, 1, first)


@pytest.mark.parametrize("again", ["the same sink", "another one"])
def test_k3_a_batch_that_has_ended_in_a_run_is_not_sent_again_in_it(
    place: Place, again: str
) -> None:
    run = QueryRun("run-1")
    claimed(place, 7, run)
    finished(claimed(place, 7, run))  # tried again before it had ended

    with pytest.raises(SupersededError, match="has been sent already in this run"):
        claimed(place, 7, run if again == "the same sink" else QueryRun("run-1"))
    finished(claimed(place, 7, QueryRun("run-2")))  # Spark has not stored its end


def test_a_checkpoint_that_was_moved_to_another_query_is_refused(place: Place) -> None:
    redis = claims.Redis(place, patience=5)
    redis.introduce(place)
    redis.introduce(place)

    with pytest.raises(MovedCheckpointError, match="belongs to the sink of query"):
        redis.introduce(Place(place.url, place.prefix, "bills", place.checkpoint))
    redis.close()


def test_a_batch_that_was_begun_is_ended_only_by_a_sink_that_cuts_it_in_the_same_way(
    place: Place,
) -> None:
    finished(claimed(place, 7, signature="by device"))
    begun = claimed(place, 8, signature="by device")

    with pytest.raises(ChangedSinkError, match=r"by device.*by meter"):
        claimed(place, 8, signature="by meter")
    finished(claimed(begun.place, 8, signature="by device"))
    claimed(place, 9, signature="by meter")


def test_k3_a_batch_that_has_ended_is_sent_again_only_by_a_sink_that_cuts_it_in_the_same_way(
    place: Place,
) -> None:
    finished(claimed(place, 7, signature="by device"))  # Spark has not stored its end

    with pytest.raises(ChangedSinkError, match=r"by device.*by meter"):
        claimed(place, 7, signature="by meter")
    finished(claimed(place, 7, signature="by device"))
    claimed(place, 8, signature="by meter")


def test_k1_times_of_another_type_are_not_compared_with_those_that_were_sent(place: Place) -> None:
    finished(claimed(place, 7, time_kind="timestamp"))

    for batch in (7, 8):
        with pytest.raises(ChangedSinkError, match="a timestamp so far, and is a date now"):
            claimed(place, batch, time_kind="date")
    finished(claimed(place, 8, time_kind="timestamp"))


def test_after_a_restart_from_batch_0_a_time_may_have_another_type(
    shared_redis: EmbeddedRedis,
) -> None:
    place = Place(shared_redis.url, "test", "orders")
    finished(claimed(place, 7, time_kind="timestamp"))

    finished(claimed(place, 0, time_kind="date"))
    with pytest.raises(ChangedSinkError, match="a date so far"):
        claimed(place, 1, time_kind="timestamp")


def test_a_batch_that_is_long_over_is_refused(place: Place) -> None:
    claimed(place, 8)

    with pytest.raises(SupersededError, match="its checkpoint is at 8"):
        claimed(place, 7)


def test_another_checkpoint_has_a_ledger_of_its_own(place: Place) -> None:
    with sender(claimed(place, 7)) as first:
        first.acknowledge({b"=a": LedgerEntry(7, 3, None, 30)}).result()
    elsewhere = Place(place.url, place.prefix, place.query, "checkpoint-2")

    with sender(claimed(elsewhere, 7)) as second:
        assert second.look_up([b"=a"]) == {b"=a": LedgerEntry()}
    with sender(claimed(place, 7)) as third:
        assert third.look_up([b"=a"]) == {b"=a": LedgerEntry(7, 3, None, 30)}


def test_without_a_checkpoint_a_batch_number_that_goes_back_starts_a_new_ledger(
    shared_redis: EmbeddedRedis,
) -> None:
    place = Place(shared_redis.url, "test", "orders")
    with sender(claimed(place, 7)) as first:
        first.acknowledge({b"=a": LedgerEntry(7, 3, None, 30)}).result()

    with sender(claimed(place, 0)) as second:
        assert second.look_up([b"=a"]) == {b"=a": LedgerEntry()}


def age(client: Redis, claim: SendClaim, seconds: float) -> None:
    """Make the stream and the ledger on the server older by `seconds`."""
    by = round(seconds * 1000)
    client.hincrby(claim.stream, "turned_ms", -by)
    for key in (claim.sequences(), claim.sequences(turns_ago=1)):
        left = client.pttl(key)
        if left > 0:
            client.pexpire(key, max(1, left - by))


def test_sequences_without_rows_are_forgotten_and_others_are_kept(
    place: Place, connect: Callable[[str], Redis]
) -> None:
    run, turn = QueryRun(), 600.0  # what is stored for two turns can be read after one
    client = connect(place.url)
    claim = claimed(place, 1, run, remember=turn)
    with sender(claim) as first:
        first.acknowledge({b"=silent": LedgerEntry(1, 1, None, 10)}).result()
        first.acknowledge({b"=busy": LedgerEntry(1, 1, None, 10)}).result()
    finished(claim)
    age(client, claim, turn)
    claim = claimed(place, 2, run, remember=turn)
    with sender(claim) as second:
        assert second.look_up([b"=silent"])[b"=silent"].sent_before(2) == 10
        second.acknowledge({b"=busy": LedgerEntry(2, 1, 10, 20)}).result()
    assert client.pttl(claim.sequences(turns_ago=1)) <= 2_000 * turn
    finished(claim)
    age(client, claim, turn)
    with sender(claimed(place, 3, run, remember=turn)) as third:
        found = third.look_up([b"=silent", b"=busy"])

    assert found == {b"=silent": LedgerEntry(), b"=busy": LedgerEntry(2, 1, 10, 20)}


def test_k3_what_a_batch_has_sent_is_stored_until_the_next_batch(place: Place) -> None:
    with sender(claimed(place, 1, remember=0.1)) as first:
        first.acknowledge({b"=a": LedgerEntry(1, 1, None, 10)}).result()
    for _ in range(2):
        time.sleep(0.3)  # longer than two turns
        claim = claimed(place, 1, remember=0.1)
        with sender(claim) as again:
            assert again.look_up([b"=a"])[b"=a"].acknowledged(1) == 1
    finished(claim)  # Spark has not stored its end, or a job is called again
    for _ in range(3):
        time.sleep(0.3)
        with sender(claimed(place, 1, remember=0.1)) as again:
            assert again.look_up([b"=a"])[b"=a"].acknowledged(1) == 1


def test_sums_are_added_once_for_each_micro_batch(
    place: Place, connect: Callable[[str], Redis]
) -> None:
    run = QueryRun()
    finished(claimed(place, 7, run), rows=5)
    finished(claimed(place, 7, run), rows=5)
    finished(claimed(place, 8, run), rows=2.5)

    totals = connect(place.url).hgetall(place.key("totals"))
    assert totals == {b"rows": b"7.5"}


def test_every_key_of_a_query_expires(place: Place, connect: Callable[[str], Redis]) -> None:
    claim = claimed(place, 7)
    with sender(claim) as mine:
        mine.acknowledge({b"=a": LedgerEntry(7, 1, None, 1)}).result()
    finished(claim, rows=5)

    client = connect(place.url)
    keys = set(client.scan_iter(f"{place.prefix}:*"))
    assert len(keys) == 7
    assert {key for key in keys if client.pttl(key) < 0} == set()


def test_a_query_that_has_not_run_for_long_is_forgotten(
    place: Place, connect: Callable[[str], Redis]
) -> None:
    client, known = connect(place.url), claims.known_queries(place.prefix)
    now_ms = client.time()[0] * 1000
    client.zadd(known, {"long ago": now_ms - KEPT_MS - 1, "of late": now_ms - KEPT_MS + DAY * 1000})
    claimed(place, 7)

    assert set(client.zrange(known, 0, -1)) == {b"of late", place.query.encode()}


def test_a_run_that_does_not_end_is_not_forgotten(
    place: Place, connect: Callable[[str], Redis], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, known, run = connect(place.url), claims.known_queries(place.prefix), QueryRun()
    claimed(place, 7, run)
    client.delete(known)
    claimed(place, 8, run)
    assert not client.exists(known), "it is introduced once a day"
    monkeypatch.setattr(claims, "INTRODUCE_AGAIN", 0.0)
    claimed(place, 9, run)
    assert client.exists(known)


def test_a_user_with_the_listed_rights_can_do_everything(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    admin: Any = connect(own_redis.url)
    rules = claims.NEEDS.rules("dispatcher").split()
    admin.execute_command("ACL", "SETUSER", "sink", "on", ">secret", *rules)
    url = own_redis.url.replace("://", "://sink:secret@")
    claim = claimed(Place(url, "dispatcher", "orders", "checkpoint-1"), 7)
    with sender(claim) as mine:
        mine.acknowledge({b"=a": LedgerEntry(7, 1, None, 1)}).result()
        assert mine.look_up([b"=a"]) == {b"=a": LedgerEntry(7, 1, None, 1)}
    finished(claim, rows=5)


def test_an_error_while_writing_is_raised_in_every_waiting_call(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(posts: object) -> None:
        raise RuntimeError("a defect")

    with sender(claimed(place, 7)) as mine:
        monkeypatch.setattr(mine, "_write", broken)
        for _ in range(2):
            with pytest.raises(LedgerError, match="a defect"):
                mine.acknowledge({b"=a": LedgerEntry(7, 1, None, 1)}).result(20)
        with pytest.raises(LedgerError, match="a defect"):
            mine.may_begin()


def test_while_redis_is_away_no_call_begins_and_then_the_task_goes_on(proxy: Proxy) -> None:
    place = Place(proxy.url, "test", "orders", "checkpoint-1")
    with sender(claimed(place, 7, lease=LEASE)) as mine:
        proxy.refuse()
        written = mine.acknowledge({b"=a": LedgerEntry(7, 1, None, 1)})
        until(lambda: not mine.may_begin())
        assert not written.done()
        proxy.accept()
        until(mine.may_begin)
        written.result()
        assert mine.look_up([b"=a"]) == {b"=a": LedgerEntry(7, 1, None, 1)}


def test_after_a_loss_of_data_in_redis_an_error_is_raised_and_nothing_is_sent(
    place: Place, connect: Callable[[str], Redis]
) -> None:
    with sender(claimed(place, 7)) as mine:
        connect(place.url).flushall()
        with pytest.raises(LedgerError, match="appendonly yes"):
            mine.acknowledge({b"=a": LedgerEntry(7, 1, None, 1)}).result()
        with pytest.raises(SparkSinkError):
            mine.may_begin()


def test_k7_a_task_from_before_redis_lost_everything_does_not_come_back(
    place: Place, connect: Callable[[str], Redis]
) -> None:
    with sender(claimed(place, 7, lease=LEASE)) as old:
        connect(place.url).flushall()
        claimed(place, 7)  # the first claim after the loss
        with pytest.raises(SparkSinkError):
            until(lambda: old.may_begin() and False)  # it finds out when it renews its permission


def test_a_redis_that_is_not_there_is_named_without_its_password() -> None:
    place = Place("redis://:secret@localhost:1/0", "test", "orders")
    redis = claims.Redis(place, patience=0.3)

    with pytest.raises(LedgerError, match=r"redis://localhost:1/0 refuses connections") as caught:
        QueryRun().claim(
            redis, place, 0, signature="s", time_kind="date", lease=LEASE, remember=DAY
        )
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("damaged", [b"", b"7 3 -", b"7 x - 5 -", b"7 -3 - 5 -", b"7 03 - 5 -"])
def test_k3_the_error_names_a_damaged_sequence_and_nothing_is_sent(
    shared_redis: EmbeddedRedis, place: Place, damaged: bytes
) -> None:
    claim = claimed(place, 7)
    with Redis.from_url(shared_redis.url) as client:
        client.hset(claim.sequences(), "=a", damaged)
    with sender(claim) as one, pytest.raises(LedgerError, match=r"damaged in Redis at .*'=a'"):
        one.look_up([b"=a", b"=b"])


def test_k3_the_error_names_a_damaged_stream(shared_redis: EmbeddedRedis, place: Place) -> None:
    claim = claimed(place, 7)
    with Redis.from_url(shared_redis.url) as client:
        client.hset(claim.stream, "acknowledged", "many")
    with pytest.raises(LedgerError, match=f"damaged in Redis at .*{re.escape(claim.stream)}"):
        claimed(place, 7)
