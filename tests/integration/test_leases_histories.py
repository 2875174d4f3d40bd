"""The script inside Redis answers as its twin in Python does, over random histories."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest
from redis import Redis

from limiters.embedded import EmbeddedRedis
from limiters.leases import ranges
from limiters.leases.coordinator import Coordinator
from limiters.leases.manager import LimitView, MemberView
from limiters.leases.messages import History, Reply, Request, Terms
from limiters.leases.ranges import EMPTY, Ranges
from limiters.leases.scripts import (
    CONFIGURE,
    EVICT,
    LOOK,
    SYNC,
    arguments_of,
    arguments_of_terms,
    keys_of,
    looked_at,
    reply_of,
    view_of,
)

STEPS = 400


def with_injected_server(source: str) -> str:
    """The script, told the time and the server by its last two arguments."""
    for function, told in (
        ("server_time", "return tonumber(ARGV[#ARGV - 1])"),
        ("server_identity", "return ARGV[#ARGV], '7.0.0'"),
    ):
        before, start, rest = source.partition(f"local function {function}()\n")
        _, end, after = rest.partition("\nend\n")
        assert start, f"{function} is not where it was"
        assert end
        source = f"{before}{start}  {told}{end}{after}"
    return source


class InRedis:
    """A Coordinator as the scripts play it."""

    def __init__(self, client: Redis) -> None:
        self.client: Any = client
        self.keys = keys_of("twin", "limit")
        self._sync = client.register_script(with_injected_server(SYNC.source))
        self._configure = client.register_script(with_injected_server(CONFIGURE.source))

    def sync(self, request: Request, now_ms: int, server: str) -> Reply:
        return reply_of(self._sync(self.keys, [*arguments_of(request), now_ms, server]))

    def set_capacity(self, terms: Terms, now_ms: int, server: str, ramp: float | None) -> None:
        told = "" if ramp is None else repr(ramp)
        self._configure(self.keys, [*arguments_of_terms(terms), told, now_ms, server])

    def evict(self, instance: str) -> bool:
        return bool(self.client.eval(EVICT.source, 1, self.keys[1], instance))

    def look(self, now_ms: int) -> LimitView | None:
        answer = self.client.eval(LOOK.source, 3, *looked_at(self.keys))
        return view_of([now_ms, *answer[1:]])

    def remembers(self) -> tuple[object, ...]:
        """What no reply tells at once, but later ones follow from."""
        members, (going, dear, coming, spent, totals, heard) = self.keys[1], self.keys[3:]
        return (
            tuple(struct.iter_unpack("<dd", self.client.get(spent) or b"")),
            *(by_name(self.client.zrange(key, 0, -1, withscores=True)) for key in (dear, coming)),
            by_name(self.client.zrange(going, 0, -1, withscores=True)),
            by_name(self.client.zrange(heard, 0, -1, withscores=True)),
            tuple(at for (at,) in struct.iter_unpack("<d", self.client.get(totals) or b"")),
            by_name(
                (name, tuple(float(stored.split(b"|")[at]) for at in (1, 7, 9, 11)))
                for name, stored in self.client.hgetall(members).items()
            ),
        )

    def forget(self) -> None:
        self.client.delete(*self.keys)


class Instance:
    """Somebody who asks at random, and mostly keeps to the rules."""

    def __init__(self, name: str, terms: Terms, random: Random) -> None:
        self.name = name
        self.terms = terms
        self.random = random
        self.weight = random.choice([1.0, 1.0, 1.0, 3.0, 0.5])
        self.interval_ms = random.choice([100, 500, 9_000])
        self.held: Ranges = EMPTY
        self.until_ms = 0
        self.told: Reply | None = None
        self.sent: list[Request] = []
        self.need = 0.0
        self.gathering = 0.0
        self.gathers_for_ms = 0

    def compose(self, leaving: bool) -> Request:
        random, capacity = self.random, self.terms.capacity
        if random.random() < 0.3:
            self.need = random.choice([0.0, 0.3, 1.0, 1.0, 4.0, random.random()]) * capacity
        if random.random() < 0.2:
            self.gathering = random.choice([0.0, 0.0, 0.0, 0.4, 0.9, 1.2]) * capacity
            self.gathers_for_ms = 0
        self.gathers_for_ms += random.choice([0, 300, 5_000])
        released = self.released(leaving)
        self.held = ranges.without(self.held, released)
        request = Request(
            instance=self.name,
            seq=self.sent[-1].seq + random.choice([1, 1, 1, 7]) if self.sent else 1,
            terms=self.terms,
            held=self.held,
            until_ms=self.until_ms,
            released=released,
            history=self.history(released),
            need=max(self.need, self.gathering),
            gathering=self.gathering,
            waited_ms=self.gathers_for_ms if self.gathering else 0,
            weight=self.weight,
            interval_ms=self.interval_ms,
            spent=random.random(),
            reserved=random.choice([0.0, 2.5]),
            label=random.choice(["", "host 1", "a|b\nc", "köln\x00|"]),
            leaving=leaving,
            # Now and then it has heard of somebody who was given up since.
            born_ms=(self.told.born_ms if self.told else 0) + (random.random() < 0.03),
            totals=random.choice([(), (), (1.0,), (0.0, 2.5, 1 / 3), (1.0,) * 13]),
        )
        self.sent.append(request)
        return request

    def released(self, leaving: bool) -> Ranges:
        held, random = self.held, self.random
        if leaving:
            return held
        if self.told is not None and random.random() < 0.8:
            return ranges.highest(held, max(0, ranges.count(held) - self.told.keep))
        some = {index for index in ranges.indexes(held) if random.random() < 0.2}
        some |= {3} if random.random() < 0.02 else set()  # what it may not even hold
        return ranges.union(EMPTY, tuple((index, index) for index in sorted(some)))

    def history(self, released: Ranges) -> History:
        if not released or self.random.random() < 0.2:
            return ()
        period_ms = self.terms.period_ms
        ages = sorted(self.random.sample(range(int(period_ms * 1.1)), self.random.randrange(30)))
        worth = ranges.count(released) * self.terms.factor
        cost = self.random.choice([10.0, 1 / 3, worth / 30])
        return tuple((age, cost * self.random.choice([1, 1, 2])) for age in ages)

    def hears(self, reply: Reply) -> None:
        if not reply.stale:
            self.held, self.until_ms = reply.held, reply.until_ms
            self.terms, self.told = reply.terms, reply


class Twins:
    """Both twins, and what happens to them."""

    def __init__(self, client: Redis, seed: int) -> None:
        self.random = Random(seed)
        self.python = Coordinator()
        self.redis = InRedis(client)
        self.now_ms = 1_795_000_000_000
        self.server = 0
        capacity, factor = self.random.choice(
            [(1000.0, 100.0), (750.0, 100.0), (20_000.0, 700.0), (5.0, 1.0), (0.7, 1.0)]
        )
        period_ms, lease_ms = self.random.choice(
            [(1000, 2000), (1000, 2000), (150, 600), (60_000, 5_000)]
        )
        self.terms = Terms(capacity, factor, period_ms, lease_ms)
        self.instances: list[Instance] = []
        self.names = 0
        self.most = self.random.choice([3, 8, 25])

    def step(self) -> None:
        lease_ms = self.terms.lease_ms
        self.now_ms += self.random.choice([0, 1, 3, 20, 20, 50, 50, 130, 131, lease_ms // 4])
        dice = self.random.randrange(1000)
        if dice < 890 or not self.instances:
            self.sync()
        elif dice < 940:
            self.change_capacity()
        elif dice < 950:
            name = self.random.choice(["nobody", *(one.name for one in self.instances)])
            assert self.python.evict(name) == self.redis.evict(name)
        elif dice < 976:
            self.jump(lease_ms)
        elif dice < 982:
            self.python.forget()
            self.redis.forget()
        elif dice < 988:
            self.server += 1
        else:
            self.instances.remove(self.random.choice(self.instances))  # it crashes

    def jump(self, lease_ms: int) -> None:
        """The clock is put right, or nobody asked for long, or another server's is behind."""
        back = [-1, -40, -300, 1 - lease_ms, -lease_ms, -lease_ms - 40, -2 * lease_ms]
        self.now_ms += self.random.choice([*back, lease_ms, 5 * lease_ms])

    def change_capacity(self) -> None:
        was = self.terms.capacity
        capacity = was * self.random.choice([0.35, 0.8, 1.0, 1.33, 2.0])
        ramp = self.random.choice([None, was / 2000, was / 333])
        factor = self.terms.factor * (3 if self.random.random() < 0.1 else 1)
        version = self.random.randrange(3)
        terms = replace(self.terms, capacity=capacity, factor=factor, version=version)
        self.python.set_capacity(terms, self.now_ms, str(self.server), ramp)
        self.redis.set_capacity(terms, self.now_ms, str(self.server), ramp)

    def sync(self) -> None:
        random = self.random
        if not self.instances or (len(self.instances) < self.most and random.random() < 0.1):
            self.names += 1
            self.instances.append(Instance(f"i{self.names} é", self.terms, random))
        one = random.choice(self.instances)
        dice = random.random()
        leaving = dice > 0.98
        if dice < 0.12 and one.sent:
            request = one.sent[-1] if dice < 0.09 else random.choice(one.sent)
        else:
            request = one.compose(leaving)
        expected = self.python.sync(request, self.now_ms, str(self.server))
        same(self.redis.sync(request, self.now_ms, str(self.server)), expected)
        if random.random() < 0.9:  # else the reply is lost
            one.hears(expected)
        if leaving:
            self.instances.remove(one)

    def look(self) -> None:
        same(self.redis.remembers(), remembered(self.python))
        same(self.redis.look(self.now_ms), self.python.look(self.now_ms))


def by_name(entries: Iterable[tuple[bytes, object]]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((name.decode(), value) for name, value in entries))


def remembered(one: Coordinator) -> tuple[object, ...]:
    """The same of the twin in Python."""
    members = sorted(one.members.items())
    return (
        tuple(sorted(one.pool.spent.items())),
        tuple(sorted(one.dear.items())),
        tuple(sorted(one.coming.at_ms.items())),
        tuple((name, member.gone_ms) for name, member in members),
        tuple(sorted((it, hour * 2**32 + seq) for it, (hour, seq) in one.totals.heard.items())),
        one.totals.counts,
        tuple((name, (it.seq, it.wanted, it.credit, it.lacks)) for name, it in members),
    )


def same(one: object, other: object, what: str = "") -> None:
    """Equal, and numbers that are not whole nearly so."""
    if isinstance(one, float) and isinstance(other, (float, int)):
        near = one == other or math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
        assert near, f"{what}: {one} {other}"
    elif isinstance(one, tuple) and isinstance(other, tuple):
        assert len(one) == len(other), f"{what}: {one} {other}"
        for index, (mine, its) in enumerate(zip(one, other, strict=True)):
            same(mine, its, f"{what}[{index}]")
    elif isinstance(one, (Reply, Terms, LimitView, MemberView)):
        for field in fields(one):
            same(getattr(one, field.name), getattr(other, field.name), f"{what}.{field.name}")
    else:
        assert one == other, f"{what}: {one} {other}"


@pytest.mark.parametrize("seed", range(24))
def test_script_answers_as_the_coordinator_does(shared_redis: EmbeddedRedis, seed: int) -> None:
    with Redis.from_url(shared_redis.url) as client:
        twins = Twins(client, seed)
        for number in range(STEPS):
            try:
                twins.step()
                if number % 5 == 0:
                    twins.look()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {number}: {error}") from error
