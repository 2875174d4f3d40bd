"""Law K8: a task that sends batches of several subjects, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tenacity.stop import stop_after_attempt
from tenacity.wait import wait_fixed

from dispatcher.errors import TooExpensiveError
from dispatcher.operation import Operation
from dispatcher.outcomes import PartialFailure, Reject
from dispatcher.registration import RedisEntityStore, RegistrationGate
from dispatcher.spark import BatchFailedError, UnusableRowsError
from dispatcher.spark import context as contexts
from dispatcher.spark._ledger import claims
from dispatcher.spark._ledger.claims import Place, QueryRun, SendClaim
from dispatcher.spark._ledger.division import Division
from dispatcher.spark._most_cost import MostCost
from dispatcher.spark._options import DeliveryOptions
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.formats import AsDict
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._rows.packs import Pack
from dispatcher.spark._task.delivery import Delivery
from dispatcher.spark._task.micro_batch_id import MicroBatchId
from dispatcher.spark._task.sums import Sums
from dispatcher.spark._task.task import TaskJob
from dispatcher.spark.context import Context
from limiters import LimiterConfig
from limiters.embedded import EmbeddedRedis
from tests.unit.spark.test_cutting import all_units
from tests.waiting import LONG

COLUMNS = Columns("subject", "time")
MOST = Division(1, 10)
Call = tuple[Context, list[int]]


@pytest.fixture
def claimed(shared_redis: EmbeddedRedis) -> Callable[..., SendClaim]:
    def claim(batch: int = 1, division: Division | None = MOST) -> SendClaim:
        place = Place(shared_redis.url, "test", "orders", "checkpoint")
        redis = claims.Redis(place, patience=LONG)
        options = {"signature": "s", "time_kind": "number"}
        try:
            return QueryRun().claim(
                redis, place, batch, lease=1.0, remember=1_000, division=division, **options
            )
        finally:
            redis.close()

    return claim


Claimed = Callable[..., SendClaim]


def rows(subjects: str, each: int = 2, since: int = 0) -> list[dict[str, Any]]:
    """Return so many rows of each subject, sorted. `n` is a number of its own."""
    return [
        {"subject": subject, "time": since + place, "n": 100 * ord(subject) + since + place}
        for subject in sorted(subjects)
        for place in range(each)
    ]


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [row["n"] for row in found]


def run(
    handler: Any,
    given: list[dict[str, Any]],
    claim: SendClaim | None = None,
    *,
    division: Division | None = MOST,
    at_once: int = 7,
    gate: Any = None,
    cut: Cut | None = None,
    query: str = "orders",
    **settings: Any,
) -> dict[str, float]:
    """Run a task with the rows, `at_once` in a record batch, and return its sums."""
    most = division or MOST
    options = {"cost": 1.0, "rows": "dict", **settings}
    batch = 1 if claim is None else claim.batch
    job = TaskJob(
        DeliveryOptions(handler=handler, **options),
        COLUMNS,
        cut or Cut(most.most_rows, most.most_cost),
        "number",
        query,
        batch,
        claim,
        gate=gate,
        division=division,
    )
    (sums,) = job.run(pa.Table.from_pylist(given).to_batches(at_once))
    return {name: sums.column(name)[0].as_py() for name in sums.schema.names}


class Handler:
    """Notes each call, and calls `act`."""

    def __init__(self, act: Callable[[list[Any], Context], None] | None = None) -> None:
        self.calls: list[Call] = []
        self._act = act

    def __call__(self, batch: list[Any], context: Context) -> None:
        self.calls.append((context, [row["n"] for row in batch]))
        if self._act is not None:
            self._act(batch, context)

    @property
    def batches(self) -> list[list[int]]:
        """The rows of each call, in order of the first one."""
        return sorted(found for _, found in self.calls)

    @property
    def keys(self) -> list[str]:
        """The keys of all calls."""
        return [context.key for context, _ in self.calls]

    def keys_of_subjects(self) -> dict[Any, set[str]]:
        """Return all keys that the rows of each subject had."""
        found: dict[Any, set[str]] = {}
        for context, _ in self.calls:
            for part in context.subjects:
                found.setdefault(part.subject, set()).add(part.key)
        return found


def dislikes(*subjects: str) -> Callable[[list[Any], Context], None]:
    def act(batch: list[Any], context: Context) -> None:
        if any(row["subject"] in subjects for row in batch):
            raise RuntimeError("not liked")

    return act


def test_k8_a_batch_holds_several_subjects_and_the_context_has_the_rows_of_each() -> None:
    handler = Handler()
    sums = run(handler, rows("abcdefgh"))

    assert handler.batches == [numbers(rows("abcde")), numbers(rows("fgh"))]
    assert (sums["batches"], sums["sent_rows"], sums["cost"]) == (2, 16, 16)
    context, found = min(handler.calls, key=lambda call: call[1])
    assert (context.subject, context.first, context.last, context.late) == (None, 0, 1, False)
    assert [part.subject for part in context.subjects] == list("abcde")
    for part in context.subjects:
        assert found[part.start : part.end] == numbers(rows(str(part.subject)))
        assert (part.first, part.last, part.late) == (0, 1, False)


def test_the_log_hints_once_a_query_that_a_batch_of_several_has_no_single_subject(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "_hinted", set())

    def shows(batch: list[Any], context: Context) -> None:
        assert f"key={context.key!r}" in repr(pickle.loads(pickle.dumps(context)))

    def reads(batch: list[Any], context: Context) -> None:
        assert context.subject is None or len(context.subjects) == 1

    run(shows, rows("abcdefghijkl"))
    run(reads, rows("a"))
    assert caplog.messages == []
    for _ in range(2):
        for query in ("orders", "returns"):
            run(reads, rows("abcdefghijkl"), query=query)
    said = "a handler of query {!r} has read context.subject, which is None in a batch of several"
    assert [one.partition(" subjects:")[0] for one in caplog.messages] == [
        said.format(query) for query in ("orders", "returns")
    ]


def test_log_lines_of_an_executor_name_the_handler_the_rows_and_the_subjects(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(BatchFailedError):
        run(never_takes, rows("ab"), retry=(wait_fixed(0), stop_after_attempt(2)))

    batch = "a batch of 4 rows of 2 subjects, 'a' to 'b', in micro-batch 1 of query 'orders'"
    handler = "handler tests.integration.spark.test_packs:never_takes"
    assert caplog.messages == [
        f"{batch} ({handler}, attempt 1) failed: RuntimeError('not liked'); it is tried again",
        f"{batch} ({handler}, attempt 2) failed: RuntimeError('not liked'); it is given up",
    ]


def never_takes(batch: list[Any]) -> None:
    raise RuntimeError("not liked")


def test_k8_the_context_of_a_batch_of_one_subject_is_that_without_packs() -> None:
    packed, alone = Handler(), Handler()
    run(packed, rows("a", 25))
    run(alone, rows("a", 25), division=None)

    assert packed.calls == alone.calls
    assert [context.subject for context, _ in packed.calls] == ["a"] * 3


def test_k8_rows_of_a_subject_have_one_key_in_a_pack_and_alone() -> None:
    packed, alone = Handler(), Handler()
    run(packed, rows("abcdefgh"))
    run(alone, rows("abcdefgh"), division=None)

    assert packed.keys_of_subjects() == alone.keys_of_subjects()
    assert set(alone.keys).isdisjoint(packed.keys)


@pytest.mark.parametrize("form", ["tuple", "row", "arrow"])
def test_k8_packs_hold_rows_in_each_form(form: str) -> None:
    found: list[list[int]] = []

    def take(batch: Any) -> None:
        plain = batch.to_pylist() if form == "arrow" else batch
        found.append([row["n"] if form != "tuple" else row[2] for row in plain])
        if len(found) == 1:
            raise RuntimeError("once")

    run(take, rows("abcde"), rows=form, retry=wait_fixed(0.01))
    assert found == [numbers(rows("abcde"))] * 2, "the same rows at each attempt"


@pytest.mark.parametrize("at_once", [1, 10, 10_000])
def test_k8_packs_and_keys_do_not_depend_on_record_batches(at_once: int) -> None:
    one, other = Handler(), Handler()
    run(one, rows("abcdefghijkl", 3), at_once=5)
    run(other, rows("abcdefghijkl", 3), at_once=at_once)

    assert sorted(one.keys) == sorted(other.keys)
    assert one.batches == other.batches


def test_k8_a_retry_is_of_the_whole_pack_with_its_key() -> None:
    def fails_once(batch: list[Any], context: Context) -> None:
        if context.attempt == 1:
            raise RuntimeError("once")

    handler = Handler(fails_once)
    sums = run(handler, rows("abc"), retry=wait_fixed(0.01))

    assert handler.batches == [numbers(rows("abc"))] * 2
    assert len(set(handler.keys)) == 1
    assert (sums["retries"], sums["cost"], sums["batches"]) == (1, 12, 1)


EXPENSIVE = 100 * ord("b") + 1
"""The number of the second row of b."""


def price(row: dict[str, Any]) -> float:
    """Return a cost above the five that a batch may cost, for one row."""
    return 6.0 if row["n"] == EXPENSIVE else 1.0


COSTS: list[dict[str, Any]] = [
    {"division": Division(1, 10, MostCost.of(5))},
    {"division": None, "cut": Cut(10, MostCost.of(5))},
]


@pytest.mark.parametrize("most", COSTS, ids=["packed", "alone"])
def test_a_row_that_costs_more_than_a_batch_may_is_a_dead_letter_and_others_are_sent(
    most: dict[str, Any],
) -> None:
    dead: list[tuple[Any, list[int], str]] = []

    def take_dead(batch: list[Any], context: Context) -> None:
        dead.append((context.subject, numbers(batch), context.reason))

    handler = Handler()
    sums = run(handler, rows("abc", 4), cost=price, dead_letters=take_dead, **most)

    ((subject, found, reason),) = dead
    assert (subject, found) == ("b", [EXPENSIVE])
    assert "it costs 6, and the rows of a batch may cost 5: max_batch_cost, or" in reason
    of_b = [n for batch in handler.batches for n in batch if n in numbers(rows("b", 4))]
    assert of_b == sorted(of_b), "in order of time"
    sent = sorted(n for batch in handler.batches for n in batch)
    assert sent == [n for n in numbers(rows("abc", 4)) if n != EXPENSIVE]
    assert (sums["sent_rows"], sums["rejected_rows"]) == (11, 1)


@pytest.mark.parametrize("most", COSTS, ids=["packed", "alone"])
def test_without_dead_letters_such_a_row_fails_the_task_and_is_named(most: dict[str, Any]) -> None:
    with pytest.raises(UnusableRowsError, match=r"a row of subject 'b' in .*: it costs 6, and"):
        run(Handler(), rows("abc", 4), cost=price, **most)


@pytest.mark.parametrize("disliked", ["b", "abc"])
def test_the_waiting_time_is_that_of_batches_that_were_sent(disliked: str) -> None:
    sums = run(Handler(dislikes(*disliked)), rows("abc"), dead_letters=lambda dead: None)

    assert sums["batches"] == 3 - len(disliked)
    assert sums["longest_wait"] > 0
    assert sums["waited"] <= sums["batches"] * sums["longest_wait"], (
        "otherwise the average is too long"
    )


def test_k8_without_dead_letters_a_pack_that_is_given_up_fails_the_task() -> None:
    with pytest.raises(BatchFailedError, match="6 rows of 3 subjects, 'a' to 'c', in micro-batch"):
        run(dislikes("b"), rows("abc"))


async def no_async(batch: list[Any], context: Context) -> None:
    dislikes("b")(batch, context)


@pytest.mark.parametrize("handler", [dislikes("b"), no_async])
def test_k8_of_a_pack_that_is_given_up_only_the_failing_subjects_are_dead_letters(
    handler: Any,
) -> None:
    dead: list[tuple[Any, list[int], str]] = []

    def take_dead(batch: list[Any], context: Context) -> None:
        dead.append((context.subject, [row["n"] for row in batch], context.reason))

    sums = run(handler, rows("abc"), dead_letters=take_dead)

    assert dead == [("b", numbers(rows("b")), "RuntimeError: not liked")]
    assert (sums["sent_rows"], sums["rejected_rows"], sums["batches"]) == (4, 2, 2)
    assert sums["cost"] == 12, "each subject is charged when it is sent by itself"


def test_k8_subjects_sent_one_by_one_have_the_keys_that_they_have_in_the_pack() -> None:
    handler = Handler(dislikes("b"))
    run(handler, rows("abc"), dead_letters=lambda batch: None)

    assert handler.calls[0][0].subject is None
    assert sorted(context.subject for context, _ in handler.calls[1:]) == ["a", "b", "c"]
    assert all(len(keys) == 1 for keys in handler.keys_of_subjects().values())
    assert {context.subject: context.key for context, _ in handler.calls[1:]} == {
        subject: key for subject, (key,) in handler.keys_of_subjects().items()
    }


@pytest.mark.parametrize("concurrency", [1, 2])
def test_k8_any_number_of_packs_may_fail_at_the_same_time(concurrency: int) -> None:
    dead: list[int] = []
    given = rows("abcdefghijklmnopqrstuvwxyz" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 3)
    handler = Handler(dislikes(*"abcdefghijklmnopqrstuvwxyz"))
    run(
        handler,
        given,
        concurrency=concurrency,
        division=Division(1, 6),
        dead_letters=lambda batch: dead.extend(row["n"] for row in batch),
    )

    assert sorted(dead) == numbers(rows("abcdefghijklmnopqrstuvwxyz", 3))


def test_k8_a_partial_failure_names_rows_of_several_subjects() -> None:
    dead: list[tuple[Any, list[int]]] = []
    named = {numbers(rows("b"))[1], *numbers(rows("d"))}

    def only_some(batch: list[Any], context: Context) -> None:
        failed = [row for row in batch if row["n"] in named]
        if failed:
            raise PartialFailure(failed, Reject("no such meter"))

    def take_dead(batch: list[Any], context: Context) -> None:
        dead.append((context.subject, [row["n"] for row in batch]))

    handler = Handler(only_some)
    sums = run(handler, rows("abcde"), dead_letters=take_dead)

    assert len(handler.calls) == 1, "it has named the failed rows: no subject is sent alone"
    assert sorted(dead) == [("b", [9801]), ("d", numbers(rows("d")))]
    assert (sums["sent_rows"], sums["rejected_rows"]) == (7, 3)


def test_k8_only_rows_that_a_partial_failure_names_are_tried_again() -> None:
    first = numbers(rows("b"))[:1] + numbers(rows("d"))

    def only_some(batch: list[Any], context: Context) -> None:
        if context.attempt == 1:
            raise PartialFailure([row for row in batch if row["n"] in first])

    handler = Handler(only_some)
    run(handler, rows("abcde"), retry=wait_fixed(0.01))

    assert [found for _, found in handler.calls] == [numbers(rows("abcde")), first]
    again, _ = handler.calls[1]
    assert [(part.subject, part.start, part.end) for part in again.subjects] == [
        ("b", 0, 1),
        ("d", 1, 3),
    ]


def test_k8_only_a_row_that_costs_more_than_the_limit_becomes_a_dead_letter() -> None:
    dead: list[int] = []
    handler = Handler()

    def price(row: dict[str, Any]) -> float:
        return 25.0 if row["n"] == 9801 else 1.0

    def take_dead(batch: list[Any]) -> None:
        dead.extend(numbers(batch))

    most = Division(1, 10, MostCost.of(20))
    run(handler, rows("abc"), division=most, cost=price, dead_letters=take_dead)

    assert dead == [9801]
    assert sorted(n for batch in handler.batches for n in batch) == [9700, 9701, 9800, 9900, 9901]
    with pytest.raises(
        UnusableRowsError, match=r"a row of subject 'b' .* it costs 25, and the rows of a batch may"
    ):
        run(Handler(), rows("abc"), division=most, cost=price)


def test_k3_k8_a_pack_is_acknowledged_as_a_whole_and_a_replay_sends_the_others(
    claimed: Claimed,
) -> None:
    def stops(batch: list[Any], context: Context) -> None:
        if any(row["subject"] == "h" for row in batch):
            raise RuntimeError("stop")

    first, again = Handler(stops), Handler()
    with pytest.raises(BatchFailedError):
        run(first, rows("abcdefghij"), claimed(), concurrency=1)
    sums = run(again, rows("abcdefghij"), claimed())

    assert sums["replayed_rows"] == 10
    assert again.batches == [numbers(rows("fghij"))]
    assert again.keys == first.keys[-1:]


def test_k3_k8_a_micro_batch_begun_without_packs_is_finished_and_nothing_is_sent_twice(
    claimed: Claimed,
) -> None:
    first, again = Handler(dislikes("d")), Handler()
    with pytest.raises(BatchFailedError):
        run(first, rows("abcde"), claimed(division=None), division=None, concurrency=1)
    claim = claimed()
    assert claim.division is None, "this micro-batch has none"
    run(again, rows("abcde"), claim, division=claim.division)

    assert again.batches == [numbers(rows("d")), numbers(rows("e"))]
    assert again.keys[0] == first.keys[-1]
    later = claimed(2)
    assert later.division == MOST


def test_k3_k8_subjects_sent_one_by_one_are_so_in_a_replay_with_the_same_keys(
    claimed: Claimed,
) -> None:
    def no_room(batch: list[Any], context: Context) -> None:
        raise OSError("no room for dead letters")

    first, again = Handler(dislikes("c")), Handler(dislikes("c"))
    with pytest.raises(BatchFailedError, match="no room"):
        run(first, rows("abcde"), claimed(), concurrency=1, dead_letters=no_room)
    run(again, rows("abcde"), claimed(), dead_letters=lambda batch: None)

    whole, *singly = (context.subject for context, _ in first.calls)
    assert (whole, singly[:3]) == (None, ["a", "b", "c"])  # a later one may have begun by then
    left = set("abcde") - set(singly) | {"c"}
    assert {context.subject for context, _ in again.calls} == left
    assert first.keys[3] in again.keys


def test_k8_late_rows_are_sent_first_in_a_batch_of_their_own(claimed: Claimed) -> None:
    run(Handler(), rows("bd", 1, since=5), claimed(1))
    mixed = sorted(rows("abcd", 2) + rows("abcd", 2, since=6), key=lambda row: row["subject"])
    handler = Handler()
    sums = run(handler, mixed, claimed(2, replace(MOST, most_rows=16)), division=Division(1, 16))

    (late, first), (rest, second) = handler.calls
    assert (late.late, rest.late) == (True, False)
    assert first == numbers(rows("bd"))
    assert [part.late for part in late.subjects] == [True, True]
    assert sorted(second) == sorted({row["n"] for row in mixed} - set(first))
    assert sums["late_rows"] == 4


def test_k8_rows_after_late_rows_wait_even_if_the_late_ones_fail(claimed: Claimed) -> None:
    run(Handler(), rows("abcd", 1, since=5), claimed(1))
    mixed = sorted(rows("abcd", 2) + rows("abcd", 2, since=6), key=lambda row: row["subject"])

    def dislikes_late(batch: list[Any], context: Context) -> None:
        if context.late and any(row["subject"] in "bc" for row in batch):
            raise RuntimeError("too late")

    handler = Handler(dislikes_late)
    dead: list[int] = []
    run(
        handler,
        mixed,
        claimed(2),
        dead_letters=lambda batch: dead.extend(row["n"] for row in batch),
    )

    late = [context.late for context, _ in handler.calls]
    assert late == [True] * 5 + [False], "the pack, its four subjects, and then the rest"
    assert sorted(dead) == numbers(rows("bc"))


def test_k8_rows_that_cannot_be_sent_do_not_hold_up_others_of_their_pack(claimed: Claimed) -> None:
    given = rows("abc")
    given[2]["time"] = None
    without_subject = {"subject": None, "time": 3, "n": 7}
    dead: dict[int, str] = {}

    def take_dead(batch: list[Any], context: Context) -> None:
        dead.update({row["n"]: context.reason for row in batch})

    handler = Handler()
    for _ in range(2):
        sums = run(handler, [without_subject, *given], claimed(), dead_letters=take_dead)

    assert dead == {7: "it has no subject", given[2]["n"]: "it has no time"}
    assert handler.batches == [numbers(given[:2] + given[3:])]
    assert sums["replayed_rows"] == 7


def test_k8_the_gate_decides_by_subject_and_a_replay_has_the_same_packs(
    shared_redis: EmbeddedRedis, claimed: Claimed
) -> None:
    url = shared_redis.url
    store = RedisEntityStore(url, name="devices")
    first, again = Handler(dislikes("h")), Handler()
    with RegistrationGate(RedisEntityStore(url, name="devices")) as gate:
        for subject in "abdefgh":  # c and i are not registered
            gate.register(subject)
        with pytest.raises(BatchFailedError):
            run(first, rows("abcdefghi"), claimed(), gate=store, concurrency=1)
        sums = run(again, rows("abcdefghi"), claimed(), gate=store)
        released = [[m["n"] for m in gate.register(one)[0].messages] for one in "ci"]

    assert released == [numbers(rows("c")), numbers(rows("i"))]
    assert first.batches == [numbers(rows("abde")), numbers(rows("fgh"))]
    assert again.batches == [numbers(rows("fgh"))]
    assert again.keys == first.keys[-1:]
    assert sums["replayed_rows"] == 12


def test_k8_a_pack_that_costs_more_than_the_limit_is_sent_by_subjects() -> None:
    handler = Handler()
    sums = run(handler, rows("abcde"), limiter=LimiterConfig(reserved_capacity=4))

    assert handler.batches == [numbers(rows(subject)) for subject in "abcde"]
    assert (sums["sent_rows"], sums["batches"]) == (10, 5)


@pytest.mark.parametrize(("subjects", "divided"), [("ab", True), ("a", False)])
def test_k8_a_pack_that_no_longer_fits_a_lowered_limit_is_sent_by_subjects(
    subjects: str, divided: bool
) -> None:
    units = [
        unit for subject in subjects for unit in all_units([(subject, 1, 1)], [5], Cut(10), {}, 1)
    ]
    sending = DeliveryOptions(handler=lambda batch: None)
    of = MicroBatchId("orders", 1, "checkpoint", "number")
    delivery = Delivery(sending, of, AsDict(), Sums())
    operation = Operation(delivery.watcher(sending), 10, Pack(units))

    delivery._give_up([operation], TooExpensiveError(10, 4))

    assert delivery.divided.empty() is not divided
    assert (delivery.failed is None) == divided


def test_k8_a_handler_receives_no_more_than_rows_and_cost_allow() -> None:
    handler = Handler()
    run(
        handler,
        rows("abcdefgh", 3),
        division=Division(1, 100, MostCost.of(7)),
        cost=lambda row: 1.1,
    )

    assert max(map(len, handler.batches)) == 6
    assert sorted(n for found in handler.batches for n in found) == numbers(rows("abcdefgh", 3))
