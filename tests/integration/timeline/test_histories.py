"""The Timeline on a real server answers as a plain model does, over random histories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from dispatcher.timeline import Consumer, Lease, Message, Snapshot, Status
from dispatcher.timeline._leasing.mending import Mending
from dispatcher.timeline.outcomes import MessageOutcome
from limiters.embedded import EmbeddedRedis
from tests.timelines import Hands, timed

REMEMBER_MS, MOST_ATTEMPTS, BUCKETS = 5_000, 3, 4
GROUPS, CONSUMERS = ("us", "them"), ("a", "b")
IDS = st.sampled_from(["k", "l", "m", "n", "o", "p", "q", "r"])
DELAYS = st.sampled_from([0, 1, 700, 3_000, 20_000])


@dataclass
class Known:
    """The model's state of a message."""

    group: str
    body: int
    place: str
    """waiting, leased, or dead"""
    time: int
    version: int = 1
    attempts: int = 0
    token: int = 0
    holder: str = ""
    reason: str = ""
    ended_by: tuple[int, str] = (0, "")
    """The token of the lease that was ended last, and by which outcome, while nothing has changed
    since."""


class Histories(RuleBasedStateMachine):
    url: str

    @initialize()
    def begin(self) -> None:
        self.hands = Hands(self.url)
        self.hands._client.flushall()
        self.hands.turn(0)
        options: dict[str, Any] = {"buckets": BUCKETS, "max_attempts": MOST_ATTEMPTS}
        self.timeline = timed(self.url, remember_deleted=REMEMBER_MS / 1000, **options)
        self.producers = {group: self.timeline.producer(group) for group in GROUPS}
        self.consumers = {name: self.timeline.consumer(name) for name in CONSUMERS}
        self.known: dict[str, Known] = {}
        self.gone: dict[str, int] = {}
        self.leases: list[tuple[Lease, str]] = []
        self.created = self.deleted = 0

    def teardown(self) -> None:
        if hasattr(self, "hands"):
            self.timeline.close()
            self.hands.close()

    @property
    def now(self) -> int:
        return self.hands.now_ms

    def status(self, one: Known) -> Status:
        past = one.time <= self.now
        if one.place == "waiting":
            return Status.NEW if past else Status.WAITING
        if one.place == "leased":
            return Status.LOST if past else Status.PROCESSING
        return Status.DEAD

    def remembered(self, name: str) -> bool:
        return self.gone.get(name, 0) > self.now

    @rule(step=st.sampled_from([1, 300, 699, 700, 1_000, 2_999, 6_000]))
    def time_passes(self, step: int) -> None:
        self.hands.turn(step)

    @rule()
    def scripts_are_forgotten(self) -> None:
        self.hands._client.script_flush()

    @rule(
        group=st.sampled_from(GROUPS),
        messages=st.lists(st.tuples(IDS, DELAYS, st.integers(0, 9)), max_size=5),
        absolute=st.booleans(),
    )
    def create(self, group: str, messages: list[tuple[str, int, int]], absolute: bool) -> None:
        made = [
            Message(body, id=name, at=self.now + delay)
            if absolute
            else Message(body, id=name, delay=delay / 1000)
            for name, delay, body in messages
        ]
        outcomes = self.producers[group].create(made)
        for (name, delay, body), outcome in zip(messages, outcomes, strict=True):
            if name in self.known:
                one = self.known[name]
                expected: tuple[Any, ...] = (
                    "Duplicate",
                    (self.status(one), one.time, one.version, one.attempts),
                )
            elif self.remembered(name):
                expected = ("Duplicate", (Status.DELETED, 0, 0, 0))
            else:
                self.known[name] = Known(group, body, "waiting", self.now + delay)
                self.created += 1
                expected = ("Created", (self.now + delay, 1, 0))
            assert shown(outcome) == expected

    def refusal(self, group: str, name: str, version: int) -> tuple[Any, ...] | None:
        one = self.known.get(name)
        if one is None:
            return ("NotFound", ())
        if one.group != group:
            return ("NotOwner", ())
        if self.status(one) is Status.PROCESSING:
            return ("Leased", (one.time,))
        if version and version != one.version:
            return ("VersionConflict", (one.version,))
        return None

    def named(self, names: list[str], exact: bool, off: int) -> list[tuple[str, int]]:
        return [
            (name, self.known[name].version + off if exact and name in self.known else 0)
            for name in names
        ]

    @rule(
        group=st.sampled_from(GROUPS),
        names=st.lists(IDS, max_size=4),
        exact=st.booleans(),
        off=st.sampled_from([0, 0, 1]),
        delay=st.sampled_from([-1, 0, 700, 3_000]),
    )
    def move(self, group: str, names: list[str], exact: bool, off: int, delay: int) -> None:
        asked = self.named(names, exact, off)
        outcomes = self.producers[group].move(asked, at=self.now + delay)
        for (name, version), outcome in zip(asked, outcomes, strict=True):
            expected = self.refusal(group, name, version)
            if expected is None and delay < 0:
                expected = ("TimeInPast", (self.now,))
            if expected is None:
                one = self.known[name]
                if one.place == "dead":
                    one.attempts = 0
                self.known[name] = replace(
                    one,
                    place="waiting",
                    time=self.now + delay,
                    version=one.version + 1,
                    token=0,
                    reason="",
                    ended_by=(0, ""),
                )
                expected = ("Moved", (self.now + delay, one.version + 1))
            assert shown(outcome) == expected

    @rule(group=st.sampled_from(GROUPS), names=st.lists(IDS, max_size=4), exact=st.booleans())
    def delete(self, group: str, names: list[str], exact: bool) -> None:
        asked = self.named(names, exact, 0)
        outcomes = self.producers[group].delete(asked)
        for (name, version), outcome in zip(asked, outcomes, strict=True):
            if name not in self.known and self.remembered(name):
                expected: tuple[Any, ...] | None = ("AlreadyGone", ())
            else:
                expected = self.refusal(group, name, version)
            if expected is None:
                self.remove(name)
                expected = ("Deleted", ())
            assert shown(outcome) == expected

    def remove(self, name: str) -> None:
        del self.known[name]
        self.gone[name] = self.now + REMEMBER_MS
        self.deleted += 1

    def facts(self, one: Known) -> tuple[Any, ...]:
        facts = (one.body, self.status(one), one.time, one.version, one.attempts)
        return (*facts, one.group, one.reason)

    @rule(group=st.sampled_from(GROUPS), names=st.lists(IDS, max_size=4))
    def get(self, group: str, names: list[str]) -> None:
        outcomes = self.producers[group].get(names)
        for name, outcome in zip(names, outcomes, strict=True):
            expected = self.refusal(group, name, 0)
            if expected is None:
                one = self.known[name]
                facts = self.facts(one)
                expected = ("Snapshot", facts)
            assert shown(outcome) == expected

    @rule(
        name=st.sampled_from(CONSUMERS),
        limit=st.integers(1, 9),
        length=DELAYS,
        insists=st.booleans(),
    )
    def lease(self, name: str, limit: int, length: int, insists: bool) -> None:
        consumer = self.consumers[name]
        if insists:  # asks the server, although by its own times nothing is due
            for bucket in range(BUCKETS):
                consumer._serving.agenda.learn(bucket, [0] * 9, [0] * 9)
        due = {
            key: one
            for key, one in self.known.items()
            if self.status(one) in (Status.NEW, Status.LOST)
        }
        length = max(1, length)
        leases = consumer.lease(limit, length / 1000)
        assert len({lease.id for lease in leases}) == len(leases) <= limit
        for lease in leases:
            one = due.pop(lease.id)
            assert one.attempts < MOST_ATTEMPTS
            assert (lease.body, lease.attempt, lease.version, lease.until) == (
                one.body,
                one.attempts + 1,
                one.version + 1,
                self.now + length,
            )
            assert lease.token > one.token
            self.known[lease.id] = replace(
                one,
                place="leased",
                time=lease.until,
                version=lease.version,
                attempts=lease.attempt,
                token=lease.token,
                holder=name,
                ended_by=(0, ""),
            )
            self.leases.append((replace(lease), name))
        for key, one in due.items():
            if one.attempts >= MOST_ATTEMPTS and self.is_dead(key):
                self.known[key] = self.dead(one, f"leased {MOST_ATTEMPTS} times")
            else:
                assert len(leases) == limit or not self.is_own(consumer, key), f"{key} was left"

    def dead(self, one: Known, reason: str) -> Known:
        return replace(
            one, place="dead", time=self.now, version=one.version + 1, token=0, reason=reason
        )

    def is_dead(self, name: str) -> bool:
        keys = self.timeline._topic.layout.some(list(range(BUCKETS)), "dead")
        return any(self.hands._client.zscore(key, name) is not None for key in keys)

    def is_own(self, consumer: Consumer, name: str) -> bool:
        keys = self.timeline._topic.layout
        return any(
            self.hands._client.hexists(keys.keys(bucket)[2], name)
            for bucket in consumer._serving.buckets
        )

    @rule(
        data=st.data(),
        action=st.sampled_from(["extend", "release", "untouched", "delete", "bury"]),
        delay=st.sampled_from([-1, 0, 1, 700, 3_000]),
    )
    def hold(self, data: st.DataObject, action: str, delay: int) -> None:
        if not self.leases:
            return
        chosen = data.draw(st.lists(st.sampled_from(range(len(self.leases))), max_size=4))
        picked = [self.leases[index] for index in chosen]
        consumer = self.consumers["a"]
        leases = [replace(lease) for lease, _ in picked]
        length = max(1, delay)
        if action == "extend":
            outcomes = consumer.extend(leases, length / 1000)
        elif action == "release":
            outcomes = consumer.release(leases, at=self.now + delay)
        elif action == "untouched":
            outcomes = consumer.release(leases, at=self.now + delay, attempted=False)
        elif action == "bury":
            outcomes = consumer.bury(leases, "in vain \N{SNOWMAN}")
        else:
            outcomes = consumer.delete(leases)
        for lease, outcome in zip(leases, outcomes, strict=True):
            assert shown(outcome) == self.held(action, lease, length, delay)

    def held(self, action: str, lease: Lease, length: int, delay: int) -> tuple[Any, ...]:
        one = self.known.get(lease.id)
        if one is None:
            return ("AlreadyGone" if action == "delete" else "NotFound", ())
        if one.token != lease.token or one.place != "leased":
            return self.repeated(action, lease.token, one)
        if one.time <= self.now:
            return ("LeaseExpired", (one.time,))
        if action == "delete":
            self.remove(lease.id)
            return ("Deleted", ())
        if action == "extend":
            one.time = max(one.time, self.now + length)
            one.version += 1
            return ("Extended", (one.time, one.version))
        if action == "bury":
            self.known[lease.id] = self.dead(one, "in vain \N{SNOWMAN}")
            self.known[lease.id].ended_by = lease.token, "Buried"
            return ("Buried", (one.version + 1,))
        if delay < 0:
            return ("TimeInPast", (self.now,))
        self.known[lease.id] = replace(
            one, place="waiting", time=self.now + delay, version=one.version + 1, token=0
        )
        self.known[lease.id].ended_by = lease.token, "Released"
        if action == "untouched":
            self.known[lease.id].attempts -= 1
        return ("Released", (self.now + delay, one.version + 1))

    def repeated(self, action: str, token: int, one: Known) -> tuple[Any, ...]:
        outcome = {"release": "Released", "untouched": "Released", "bury": "Buried"}.get(action)
        if one.ended_by != (token, outcome):
            return ("LeaseLost", ())
        return (outcome, (one.version,) if outcome == "Buried" else (one.time, one.version))

    @rule(name=st.sampled_from(CONSUMERS))
    def come_back(self, name: str) -> None:
        mine = {
            key: one
            for key, one in self.known.items()
            if self.status(one) is Status.PROCESSING and one.holder == name
        }
        found = self.consumers[name].active()
        assert {lease.id for lease in found} == set(mine)
        for lease in found:
            one = mine[lease.id]
            assert lease.token > one.token
            assert (lease.until, lease.attempt) == (one.time, one.attempts)
            one.token, one.version = lease.token, one.version + 1
            assert lease.version == one.version
            self.leases.append((replace(lease), name))

    @rule(group=st.sampled_from(GROUPS))
    def list_all(self, group: str) -> None:
        page, cursor = self.producers[group].list(100)
        assert cursor == ""
        ours = {key for key, one in self.known.items() if one.group == group}
        assert {snapshot.id for snapshot in page} == ours
        for snapshot in page:
            one = self.known[snapshot.id]
            if self.status(one) is not Status.PROCESSING:  # then the body is not returned
                assert shown(snapshot)[1] == self.facts(one)

    @staticmethod
    def reasons(page: list[Snapshot]) -> dict[str, str]:
        return {snapshot.id: snapshot.reason for snapshot in page}

    @rule()
    def list_dead(self) -> None:
        page, _ = self.timeline.dead(100)
        assert self.reasons(page) == {
            key: one.reason for key, one in self.known.items() if one.place == "dead"
        }

    @rule(start=DELAYS, width=st.sampled_from([0, 1, 700, 30_000]))
    def count(self, start: int, width: int) -> None:
        first = self.now - 3_000 + start
        for state in (None, *Status):
            if state is Status.DELETED:
                continue
            found = self.timeline.count(first, first + width, state)
            assert found == len(
                [
                    one
                    for one in self.known.values()
                    if first <= one.time < first + width
                    and (self.status(one) == state if state else one.place != "dead")
                ]
            )

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "timeline"):
            return
        stats = self.timeline.stats()
        by_status = [self.status(one).value for one in self.known.values()]
        for state in ("new", "lost", "waiting", "processing", "dead"):
            assert getattr(stats, state) == by_status.count(state), state
        assert (stats.created, stats.deleted) == (self.created, self.deleted)
        assert stats.created == stats.deleted + stats.dead + stats.remaining
        assert Mending(self.timeline._topic).damaged(range(BUCKETS)) == []


def shown(outcome: MessageOutcome) -> tuple[Any, ...]:
    """The kind of an outcome, and its facts without the id."""
    names = [name for name in type(outcome).__slots__ if not name.startswith("_")]
    facts = tuple(getattr(outcome, name) for name in names)
    return type(outcome).__name__, facts


@pytest.mark.filterwarnings("ignore")
def test_t1_to_t10_the_server_answers_as_the_model_does(shared_redis: EmbeddedRedis) -> None:
    class OnThisServer(Histories):
        url = shared_redis.url

    run_state_machine_as_test(
        OnThisServer,
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
