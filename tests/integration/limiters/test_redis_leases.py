"""The data that RedisLeaseManager stores and refuses: formats, a full server, damage, new
servers."""

from __future__ import annotations

import math
import re
import shlex
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from redis import Redis, ResponseError

from dispatcher.timeline import Message, Timeline
from dispatcher.worker import Worker
from limiters import ImproperOrderError, LeaseManagerError, RedisLeaseManager, SharedResource
from limiters._redis.script import of_source
from limiters.embedded import EmbeddedRedis
from limiters.leases._format import (
    CHANGE,
    DEFAULT_SPAN,
    FORMAT,
    HEADER,
    RECORD,
    RECORD_BOUND,
    REPLY,
    SCANNED,
    UNITS,
    Field,
    numbers_of,
)
from limiters.leases._format import FieldKind as FieldKind
from limiters.leases._messages import Kind, Request, Terms
from limiters.leases._scripts import TWIN, keys_of, old_keys_of, registry_key, source_of
from limiters.leases.redis import NEEDS, mark_as_new
from tests.twins.stores import InRedis, Scripts
from tests.waiting import until

TERMS = Terms.scalar(capacity=100.0, factor=10.0, period=1000, lease=2000)
KEYS = keys_of("dispatcher", "orders")
LIMIT, GRANTS, PEOPLE, OLD, REGISTRY = KEYS
NOT_FINITE = (math.nan, math.inf, -math.inf)
DAMAGE = [
    (field, number)
    for field in numbers_of(HEADER)
    for number in (*NOT_FINITE, *((1e308, -1e17) if field.kind is FieldKind.WHOLE else ()))
]


def request(instance: str = "one", seq: int = 1, **changes: Any) -> Request:
    return Request.scalar(instance, seq, TERMS, **{"need": 500.0, **changes})


@pytest.fixture
def client(shared_redis: EmbeddedRedis) -> Iterator[Any]:
    """A client of a server that has no data and no registry."""
    with Redis.from_url(shared_redis.url) as made:
        made.flushall()
        yield made


@pytest.fixture
def manager(client: Any, shared_redis: EmbeddedRedis) -> Iterator[RedisLeaseManager]:
    with closing(RedisLeaseManager(shared_redis.url, name="orders", timeout=10)) as made:
        yield made


def packed(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


def calls_of(manager: RedisLeaseManager) -> tuple[Callable[[], Any], ...]:
    """Return all calls that a user can make for a limit."""
    return (
        lambda: manager.sync(request(seq=2)),
        lambda: manager.set_terms(capacity=3.0),
        lambda: manager.set_terms(period=3.0),
        lambda: manager.evict("one"),
        manager.delete,
    )


ALL: Any = {"capacity": 100, "factor": 10, "period": 1, "lease_time": 2}


def stored(client: Any) -> dict[bytes, Any]:
    kinds = {key: client.type(key) for key in client.scan_iter()}
    return {
        key: client.hgetall(key) if kind == b"hash" else client.get(key)
        for key, kind in kinds.items()
    }


def test_c12_on_a_server_that_was_marked_as_new_the_first_request_is_granted(
    client: Any, manager: RedisLeaseManager
) -> None:
    mark_as_new(client)
    reply = manager.sync(request())
    assert reply.kind is Kind.ANSWER
    assert (reply.created, reply.units) == (True, UNITS)


def test_c8_on_any_other_server_the_first_request_is_challenged_and_waits(
    manager: RedisLeaseManager,
) -> None:
    first = manager.sync(request())
    assert first.kind is Kind.CHALLENGE
    second = manager.sync(request(seq=2, nonce=first.nonce))
    assert (second.kind, second.units, second.certain) == (Kind.ANSWER, 0, False)
    view = manager.look()
    assert view is not None
    assert 0 < view.uncertain_ms <= 6006
    assert view.cause == "the limit is new to this server"


def test_server_with_data_is_not_marked_as_new(client: Any) -> None:
    client.set("anything", 1)
    with pytest.raises(ImproperOrderError, match="has data"):
        mark_as_new(client)
    assert not client.exists(registry_key("dispatcher"))


def test_only_the_documented_keys_are_written(client: Any, manager: RedisLeaseManager) -> None:
    mark_as_new(client)
    manager.sync(request(label="host/1"))
    manager.sync(request("two", label="host/2"))
    manager.sync(request(seq=2, born=1, released=UNITS // 2, history=((10, 3.0),)))
    assert {key.decode() for key in client.scan_iter()} <= set(KEYS)


def test_limit_that_is_deleted_expires_and_is_not_shown(
    client: Any, manager: RedisLeaseManager
) -> None:
    mark_as_new(client)
    manager.sync(request(totals=(1.0,)))
    assert manager.delete()
    assert not manager.delete()
    assert manager.look() is None
    assert 0 < client.ttl(LIMIT) < 30
    assert not client.exists(GRANTS, PEOPLE)


def test_terms_set_for_a_deleted_limit_count_and_do_not_expire(
    client: Any, manager: RedisLeaseManager
) -> None:
    manager.sync(request())
    manager.delete()
    assert not manager.set_terms(capacity=5.0)
    assert manager.set_terms(capacity=5.0, factor=1.0, period=1, lease_time=2)
    assert client.ttl(LIMIT) == -1
    view = manager.look()
    assert view is not None
    assert view.terms.capacity == 5


def test_another_format_is_refused_and_not_changed(client: Any, manager: RedisLeaseManager) -> None:
    manager.sync(request())
    header = client.hget(LIMIT, "header")
    client.hset(LIMIT, "header", struct.pack("<d", FORMAT + 1) + header[8:] + b"more")
    before = stored(client)
    for call in (*calls_of(manager), manager.look):
        with pytest.raises(LeaseManagerError, match=rf"in format {FORMAT + 1}; .* format {FORMAT}"):
            call()
    assert stored(client) == before


def test_limit_of_the_first_format_is_refused_until_it_is_deleted(
    client: Any, manager: RedisLeaseManager
) -> None:
    old = old_keys_of("dispatcher", "orders")
    client.hset(OLD, mapping={"lease_ms": "2000", "period_ms": "60000"})
    client.set(old[6], "spending")
    before = stored(client)
    for call in calls_of(manager):
        with pytest.raises(LeaseManagerError, match="limit delete orders --old-format"):
            call()
    assert stored(client) == before
    assert manager.delete_old_format()
    assert not manager.delete_old_format()
    assert {key.decode() for key in client.scan_iter()} == {OLD, REGISTRY}
    assert manager.sync(request()).kind is Kind.CHALLENGE


def test_a_process_of_the_first_format_finds_its_key_taken(
    client: Any, manager: RedisLeaseManager
) -> None:
    manager.sync(request())
    assert client.type(OLD) == b"string"
    client.delete(OLD)
    manager.sync(request())
    assert client.type(OLD) == b"string"


def test_the_key_of_the_first_format_expires_with_a_deleted_limit(
    client: Any, manager: RedisLeaseManager
) -> None:
    manager.sync(request())
    assert manager.delete()
    assert client.pttl(OLD) == pytest.approx(client.pttl(LIMIT), abs=1_000)
    assert manager.set_terms(**ALL)
    assert client.pttl(OLD) == client.pttl(LIMIT) == -1


def test_server_without_memory_serves_a_limit_that_is_there_and_refuses_a_new_one(
    own_redis: EmbeddedRedis,
) -> None:
    with Redis.from_url(own_redis.url) as client:
        manager = RedisLeaseManager(client, name="orders", timeout=10)
        manager.sync(request("one"))
        before = stored(client)
        client.script_flush()
        client.config_set("maxmemory", 1)
        new = RedisLeaseManager(client, name="mails", timeout=10)
        for call in (lambda: new.sync(request()), lambda: new.set_terms(**ALL)):
            with pytest.raises(LeaseManagerError, match="no memory"):
                call()
        assert stored(client) == before
        assert manager.sync(request("two")).kind is Kind.ANSWER, "a new instance"
        for call in calls_of(manager):
            call()
        assert manager.sync(request("three")).kind is Kind.CHALLENGE, "it starts over"


def test_server_without_memory_lets_workers_with_a_limit_empty_it(own_redis: EmbeddedRedis) -> None:
    timeline = Timeline(own_redis.url, "topic", buckets=1)
    manager = RedisLeaseManager(own_redis.url, name="orders")
    with Redis.from_url(own_redis.url) as client, closing(manager):
        manager.set_terms(**ALL)
        timeline.producer("us").create([Message("x") for _ in range(50)])
        client.config_set("maxmemory", 1)
        limiter = SharedResource(shared_capacity=100, lease_manager=manager)
        with Worker(timeline, lambda messages: None, rate_limiter=limiter) as worker:
            until(lambda: worker.totals.done == 50)
    timeline.close()


def test_user_with_the_documented_rights_may_do_everything(own_redis: EmbeddedRedis) -> None:
    with Redis.from_url(own_redis.url) as client:
        rights = ("on", ">secret", *NEEDS.rules("dispatcher").split())
        client.execute_command("ACL", "SETUSER", "user", *rights)
        url = own_redis.url.replace("redis://", "redis://user:secret@")
        with closing(RedisLeaseManager(url, name="orders", timeout=10)) as manager:
            for call in (*calls_of(manager), manager.look, manager.delete_old_format):
                call()
            client.hset(old_keys_of("dispatcher", "mails")[0], "lease_ms", 1)
        with closing(RedisLeaseManager(url, name="mails", timeout=10)) as manager:
            assert manager.delete_old_format()


@pytest.mark.parametrize("broken", [b"", b"\0" * 7, struct.pack("<d", FORMAT)])
def test_c8_header_that_cannot_be_read_starts_the_limit_over(
    client: Any, manager: RedisLeaseManager, broken: bytes
) -> None:
    mark_as_new(client)
    assert manager.sync(request()).units == UNITS
    client.hset(LIMIT, "header", broken)
    with pytest.raises(LeaseManagerError, match="is damaged"):
        manager.look()
    assert manager.sync(request("two")).kind is Kind.CHALLENGE
    view = manager.look()
    assert view is not None
    assert view.cause == "what is stored of it cannot be read"
    assert view.uncertain_ms > 0


@pytest.mark.parametrize(
    ("field", "number"), DAMAGE, ids=lambda one: one.name if isinstance(one, Field) else str(one)
)
def test_c8_header_with_an_impossible_number_starts_the_limit_over(
    client: Any, manager: RedisLeaseManager, field: Field, number: float
) -> None:
    mark_as_new(client)
    manager.sync(request())
    place = 8 * numbers_of(HEADER).index(field)
    header = client.hget(LIMIT, "header")
    damaged = header[:place] + struct.pack("<d", number) + header[place + 8 :]
    client.hset(LIMIT, "header", damaged)
    assert manager.sync(request("two")).kind is Kind.CHALLENGE
    view = manager.look()
    assert view is not None
    assert view.cause == "what is stored of it cannot be read"
    assert 0 < view.uncertain_ms <= DEFAULT_SPAN


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        *(
            (name, pair)
            for name in ("ledger", "returning")
            for pair in (
                *((number, 1.0) for number in (*NOT_FINITE, 1e308, -1e17)),
                *((5.0, number) for number in NOT_FINITE),
            )
        ),
        *(
            ("queue", (*(number if at == place else 1.0 for at in range(5)), 3))
            for place in range(5)
            for number in NOT_FINITE
        ),
    ],
    ids=str,
)
def test_c8_list_with_an_impossible_number_starts_the_limit_over(
    client: Any, manager: RedisLeaseManager, name: str, damaged: tuple[float, ...]
) -> None:
    mark_as_new(client)
    manager.sync(request())
    text = struct.pack("<5dI", *damaged) + b"one" if name == "queue" else packed(*damaged)
    client.hset(LIMIT, name, text)
    with pytest.raises(LeaseManagerError, match="starts over as soon as"):
        manager.look()
    assert manager.sync(request("two")).kind is Kind.CHALLENGE
    view = manager.look()
    assert view is not None
    assert view.cause == "what is stored of it cannot be read"


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize("field", RECORD, ids=lambda one: one.name)
def test_c8_record_with_an_impossible_number_starts_the_limit_over(
    client: Any, manager: RedisLeaseManager, field: Field, number: float
) -> None:
    mark_as_new(client)
    born = manager.sync(request()).born
    place = 8 * RECORD.index(field)
    record = client.hget(LIMIT, "=one")
    client.hset(LIMIT, "=one", record[:place] + packed(number) + record[place + 8 :])
    # Fields that each pass over all records reads are noticed with any request, others with one of
    # the record's instance.
    other = "two" if field in SCANNED else "one"
    assert manager.sync(request(other, seq=2, born=born)).kind is Kind.CHALLENGE
    view = manager.look()
    assert view is not None
    assert view.cause == "what is stored of it did not agree"


def test_c8_damage_in_the_record_of_a_silent_instance_starts_the_limit_over(client: Any) -> None:
    """Damage is noticed before the amount goes anywhere, even if the damaged number could have
    been stored."""
    scripts = Scripts(client)
    for place in range(len(RECORD) + len(RECORD_BOUND)):
        server = InRedis(scripts, registered=True)
        server.mark("server")
        server.sync("orders", request(), "server", 1_000)
        assert server.answers()[-1].units == UNITS
        limit = server.keys["orders"][0]
        record = client.hget(limit, "=one")
        (number,) = struct.unpack_from("<d", record, 8 * place)
        damaged = record[: 8 * place] + packed(number + 10**6) + record[8 * place + 8 :]
        client.hset(limit, "=one", damaged)
        for seq in range(1, 40):
            server.sync("orders", request("two", seq), "server", 1_000 + 200 * seq)
        assert Kind.CHALLENGE in {reply.kind for reply in server.answers()}, place


@pytest.mark.parametrize("number", NOT_FINITE)
def test_c8_grant_with_an_impossible_number_counts_as_lost(
    client: Any, manager: RedisLeaseManager, number: float
) -> None:
    mark_as_new(client)
    born = manager.sync(request()).born
    gives = request(seq=2, born=born, need=0, released=UNITS, history=((10, 3.0),))
    manager.sync(gives)
    taken = request("two")
    assert manager.sync(taken).given
    grant = client.hget(GRANTS, "=two")
    client.hset(GRANTS, "=two", grant[:-8] + packed(number))
    assert manager.sync(taken).kind is Kind.CHALLENGE


@pytest.mark.parametrize("until", ["nan", "inf", "-inf", "1e300", "soon"])
def test_c12_registry_with_an_impossible_time_proves_nothing(
    client: Any, manager: RedisLeaseManager, until: str
) -> None:
    mark_as_new(client)
    client.hset(REGISTRY, "=orders", until)
    assert manager.sync(request()).kind is Kind.CHALLENGE


@pytest.mark.parametrize("number", NOT_FINITE)
def test_totals_that_are_not_finite_start_from_zero(
    client: Any, manager: RedisLeaseManager, number: float
) -> None:
    mark_as_new(client)
    born = manager.sync(request()).born
    client.hset(PEOPLE, "totals", packed(1.0, number))
    view = manager.look()
    assert view is not None
    assert view.totals == ()
    manager.sync(request(seq=2, born=born, totals=(3.0, 4.0)))
    view = manager.look()
    assert view is not None
    assert view.totals == (3.0, 4.0)


@pytest.mark.parametrize("totals", [b"abc", b"\0" * 9])
def test_totals_that_cannot_be_read_do_not_hide_the_limit(
    client: Any, manager: RedisLeaseManager, totals: bytes
) -> None:
    manager.set_terms(capacity=1_000, factor=100, period=1, lease_time=20)
    client.hset(manager._keys[2], "totals", totals)
    view = manager.look()
    assert view is not None
    assert (view.terms.capacity, view.totals) == (1_000, ())


@pytest.mark.parametrize("name", ["two words", "$(reboot)", "it's"])
def test_the_command_in_an_error_can_be_copied_for_any_name(
    client: Any, shared_redis: EmbeddedRedis, name: str
) -> None:
    with closing(RedisLeaseManager(shared_redis.url, name=name)) as manager:
        client.hset(manager._keys[3], "capacity", 5)
        with pytest.raises(LeaseManagerError) as caught:
            manager.sync(Request.scalar("a", 1, TERMS))
    words = shlex.split(str(caught.value).rpartition("then: ")[2])
    assert words == ["dispatcher", "limit", "delete", name, "--old-format"]


@pytest.mark.parametrize(
    "field", ["server", "nonce", "cause", "ledger", "returning", "lots", "queue"]
)
def test_c8_limit_that_lost_a_part_starts_over(
    client: Any, manager: RedisLeaseManager, field: str
) -> None:
    mark_as_new(client)
    manager.sync(request())
    client.hdel(LIMIT, field)
    assert manager.sync(request("two")).kind is Kind.CHALLENGE


@pytest.mark.parametrize("record", [b"", b"x" * 208, None])
def test_c8_limit_whose_records_do_not_agree_starts_over(
    client: Any, manager: RedisLeaseManager, record: bytes | None
) -> None:
    mark_as_new(client)
    manager.sync(request())
    if record is None:
        client.hdel(LIMIT, "=one")
    else:
        client.hset(LIMIT, "=one", record)
    assert manager.sync(request("two")).kind is Kind.CHALLENGE
    view = manager.look()
    assert view is not None
    assert view.cause == "what is stored of it did not agree"


@pytest.mark.parametrize(
    "changes",
    [
        *({name: value} for name in ("seq", "weight", "interval", "need") for value in NOT_FINITE),
        *({"history": ((5, value),), "released": 1} for value in NOT_FINITE),
        *({"totals": (value,)} for value in NOT_FINITE),
    ],
    ids=str,
)
def test_c8_request_with_a_number_that_is_not_finite_changes_nothing(
    client: Any, manager: RedisLeaseManager, changes: dict[str, Any]
) -> None:
    mark_as_new(client)
    born = manager.sync(request()).born
    before = stored(client)
    with pytest.raises(LeaseManagerError, match="that no instance can have; nothing was changed"):
        manager.sync(request(**{"instance": "bad", **changes}))
    assert stored(client) == before
    assert manager.sync(request(seq=2, born=born, units=UNITS, left=1_000)).kind is Kind.ANSWER


@pytest.mark.parametrize("key", [LIMIT, GRANTS, PEOPLE, REGISTRY])
def test_the_error_names_a_key_of_another_type_and_nothing_is_written(
    client: Any, manager: RedisLeaseManager, key: str
) -> None:
    mark_as_new(client)
    born = manager.sync(request(totals=(1.0,))).born
    manager.sync(request(seq=2, born=born, need=0, released=UNITS, history=((10, 3.0),)))
    client.delete(key)
    client.rpush(key, "something else")
    before = {one: client.dump(one) for one in client.scan_iter()}
    for call in (lambda: manager.sync(request("two")), *calls_of(manager)):
        with pytest.raises(LeaseManagerError, match=f"else under {re.escape(key)}; delete"):
            call()
    with pytest.raises(LeaseManagerError, match=f"else under {re.escape(key)}; delete"):
        manager.look()
    assert {one: client.dump(one) for one in client.scan_iter()} == before


def test_look_is_refused_like_the_requests_of_instances(
    client: Any, manager: RedisLeaseManager
) -> None:
    manager.sync(request())
    client.delete(OLD)
    client.hset(OLD, "lease_ms", "2000")
    for call in (lambda: manager.sync(request("two")), manager.look):
        with pytest.raises(LeaseManagerError, match="dispatcher limit delete orders --old-format"):
            call()


def test_old_format_is_not_deleted_if_the_registry_has_another_type(
    client: Any, manager: RedisLeaseManager
) -> None:
    client.hset(OLD, "lease_ms", "2000")
    client.rpush(REGISTRY, "something else")
    with pytest.raises(LeaseManagerError, match=f"else under {re.escape(REGISTRY)}; delete"):
        manager.delete_old_format()
    assert client.type(OLD) == b"hash"


@pytest.mark.parametrize(
    "answer",
    [
        "{ 'answer', '', '', '', '', struct.pack(NUMBERS, 0/0, unpack(REST)) }",
        "{ 'answer', '', '', '', '', struct.pack(NUMBERS, 1/0, unpack(REST)) }",
        "{ 'answer', '', '', '', 'abc', struct.pack(NUMBERS, FORMAT, unpack(REST)) }",
        "{ 'answer', '', '', '', '', 'abc' }",
        "{ 'what', '', '', '', '', struct.pack(NUMBERS, FORMAT, unpack(REST)) }",
        "{ '\\255', '', '', '', '', struct.pack(NUMBERS, FORMAT, unpack(REST)) }",
        "{}",
        "7",
    ],
)
def test_the_error_for_an_answer_that_cannot_be_read_says_so(
    manager: RedisLeaseManager, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    count = len(numbers_of(REPLY))
    script = (
        f"local FORMAT, NUMBERS, REST = {FORMAT}, '<{'d' * count}', {{}}\n"
        f"for i = 1, {count - 1} do REST[i] = 1 end\nreturn {answer}"
    )
    monkeypatch.setattr("limiters.leases.redis.SYNC", of_source(script))
    with pytest.raises(LeaseManagerError, match="cannot be read; nothing of it is used, and"):
        manager.sync(request())


def test_a_client_that_decodes_replies_works(shared_redis: EmbeddedRedis) -> None:
    with Redis.from_url(shared_redis.url, decode_responses=True) as client:
        manager = RedisLeaseManager(client, name="orders")
        assert manager.sync(request(label="h\udcff")).units == UNITS
        view = manager.look()
        assert view is not None
        assert [one.label for one in view.instances] == ["h\udcff"]


def test_server_that_is_too_old_is_refused_by_its_version(
    client: Any, manager: RedisLeaseManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = "local function server_identity() return 'x', '6.0.16' end"
    script = of_source(source_of(*TWIN, "sync", server=old))
    monkeypatch.setattr("limiters.leases.redis.SYNC", script)
    with pytest.raises(LeaseManagerError, match=r"is version 6\.0\.16; 6\.2 or newer is needed"):
        manager.sync(request())
    assert not stored(client)


@pytest.mark.parametrize("place", range(len(CHANGE)))
def test_a_change_that_no_operator_can_make_is_refused(
    client: Any, manager: RedisLeaseManager, place: int
) -> None:
    manager.sync(request())
    before = stored(client)
    whole = (0.5,) if CHANGE[place].kind is FieldKind.WHOLE else ()
    for number in (*NOT_FINITE, -1.0, 1e300, *whole):
        numbers = [50.0, 10.0, 1_000.0, 2_000.0, 1.0]
        numbers[place] = number
        with pytest.raises(ResponseError, match="INVALID"):
            changed(client, "set", "once", packed(*numbers))
    assert stored(client) == before


@pytest.mark.parametrize("token", ["", "x" * 1_001])
def test_a_nonce_that_no_request_could_repeat_is_refused(
    client: Any, manager: RedisLeaseManager, token: str
) -> None:
    manager.sync(request())
    before = stored(client)
    for part in ("set", "delete"):
        with pytest.raises(ResponseError, match="INVALID"):
            changed(client, part, token, packed(50, 10, 1_000, 2_000, 1))
    with pytest.raises(ResponseError, match="INVALID"):
        changed(client, "set", "once", packed(50))
    assert stored(client) == before


def changed(client: Any, part: str, *arguments: str | bytes) -> Any:
    """Return the answer of a script to a call that is not made by the library."""
    return client.eval(source_of(*TWIN, part), len(KEYS), *KEYS, "orders", *arguments)
