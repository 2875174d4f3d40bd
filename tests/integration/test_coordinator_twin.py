"""The scripts inside Redis answer as the coordinator in Python does, and store the same, over
random histories of requests, operators and failures.

`python -m tests.integration.test_coordinator_twin FIRST COUNT` runs more of them.
"""

from __future__ import annotations

import copy
import struct
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import pytest
from redis import Redis

from limiters import ArgumentError
from limiters._instance_share import InstanceShare
from limiters.embedded import EmbeddedRedis
from limiters.leases._codec import arguments_of, as_bytes, limit_of, registry_of, reply_of
from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.state import Registry
from limiters.leases._format import FORMAT, HEADER, NEVER, QUEUE_LENGTH, RECORD_PREFIX, UNITS
from limiters.leases._ledger import Ledger
from limiters.leases._messages import Reply, Request, Terms
from limiters.leases._scripts import TWIN, keys_of, registry_key, source_of

HISTORIES = 20
STEPS = 50

TOLD = """
local function server_time() return tonumber(ARGV[#ARGV]) end
local function server_identity() return ARGV[#ARGV - 1], '7.0.0' end
"""
"""In the place of limit_server.lua: the last arguments are the identity and the time."""

NAMES = ("orders", "mails {eu}")


class DifferenceError(AssertionError):
    """The two gave different answers, or store different things."""


class InPython:
    """The limits of one server, kept by the reference."""

    def __init__(self, registered: bool) -> None:
        self.limits = {name: Coordinator(name, registered=registered) for name in NAMES}
        self._registry: Registry | None = None

    def _at(self, name: str) -> Coordinator:
        one = self.limits[name]
        one.registry = self._registry
        return one

    def sync(self, name: str, request: Request, server: str, clock: int) -> Reply:
        one = self._at(name)
        try:
            return one.sync(request, server, clock)
        finally:
            self._registry = one.registry

    def set_terms(
        self, name: str, server: str, clock: int, token: str, **terms: float | None
    ) -> bool | str:
        one = self._at(name)
        try:
            return one.set_terms(server, clock, token, **terms)  # type: ignore[arg-type]
        except ArgumentError:
            return "too many partitions"
        finally:
            self._registry = one.registry

    def delete(self, name: str, server: str, clock: int, token: str) -> bool:
        one = self._at(name)
        done = one.delete(server, clock, token)
        self._registry = one.registry
        return done

    def evict(self, name: str, instance: str) -> bool:
        return self.limits[name].evict(instance)

    def stored(self, name: str) -> Any:
        one = self.limits[name]
        return plain((one.limit, one.totals.counts, self._registry))

    def mark(self, server: str) -> None:
        self._registry = Registry(server, NEVER)

    def lose(self, name: str) -> None:
        self.limits[name].limit = None

    def lose_grants(self, name: str) -> None:
        limit = self.limits[name].limit
        for record in limit.records.values() if limit else ():
            record.given = Ledger()

    def lose_registry(self) -> None:
        self._registry = None

    def corrupt(self, name: str) -> None:
        limit = self.limits[name].limit
        if limit is not None:
            limit.pool += 1

    def copied(self) -> Callable[[], None]:
        """Goes back to what is stored now."""
        limits, registry = copy.deepcopy((self.limits, self._registry))

        def restore() -> None:
            self.limits, self._registry = copy.deepcopy((limits, registry))

        return restore


class InRedis:
    """The same, kept by the scripts."""

    def __init__(self, client: Redis, registered: bool) -> None:
        self.client: Any = client
        self.keys = {name: keys_of("twin", name, registered=registered) for name in NAMES}
        self._sync, self._set, self._delete, self._evict = (
            client.register_script(source_of(*TWIN, part, server=TOLD))
            for part in ("sync", "set", "delete", "evict")
        )

    def sync(self, name: str, request: Request, server: str, clock: int) -> Reply:
        arguments: list[Any] = [as_bytes(name), *arguments_of(request), server, clock]
        return reply_of(self._sync(self.keys[name], arguments))

    def set_terms(
        self, name: str, server: str, clock: int, token: str, **terms: float | None
    ) -> bool | str:
        values = (terms.get(one) or 0 for one in ("capacity", "factor", "period", "lease", "ramp"))
        packed = struct.pack("<5d", *values)
        done = self._set(self.keys[name], [as_bytes(name), token, packed, server, clock])
        return "too many partitions" if isinstance(done, list) else bool(done)

    def delete(self, name: str, server: str, clock: int, token: str) -> bool:
        return bool(self._delete(self.keys[name], [as_bytes(name), token, server, clock]))

    def evict(self, name: str, instance: str) -> bool:
        arguments: list[Any] = [as_bytes(name), as_bytes(instance), "any", 0]
        return bool(self._evict(self.keys[name], arguments))

    def stored(self, name: str) -> Any:
        limit, grants, people, *_ = self.keys[name]
        labels = self.client.hgetall(people)
        packed = labels.get(b"totals", b"")
        registry = self.client.hgetall(self.keys[name][4]) if len(self.keys[name]) > 4 else {}
        self._check_fields(name)
        return plain(
            (
                limit_of(self.client.hgetall(limit), labels, self.client.hgetall(grants)),
                struct.unpack(f"<{len(packed) // 8}d", packed),
                registry_of(registry),
            )
        )

    def _check_fields(self, name: str) -> None:
        """Nothing is left of instances that were given up."""
        known, *others = (
            {one for one in self.client.hkeys(key) if one.startswith(RECORD_PREFIX.encode())}
            for key in self.keys[name][:3]
        )
        assert not known or all(other <= known for other in others)

    def mark(self, server: str) -> None:
        source = source_of("mark", server=TOLD)
        assert self.client.eval(source, 1, registry_key("twin"), server, 0) == 1

    def lose(self, name: str) -> None:
        self.client.delete(self.keys[name][0])

    def lose_grants(self, name: str) -> None:
        self.client.delete(self.keys[name][1])

    def lose_registry(self) -> None:
        self.client.delete(*[keys[4] for keys in self.keys.values() if len(keys) > 4], "none")

    def corrupt(self, name: str) -> None:
        key = self.keys[name][0]
        header = self.client.hget(key, "header")
        if header is not None:
            at = 8 * [field.name for field in HEADER].index("pool")
            (pool,) = struct.unpack_from("<d", header, at)
            changed = header[:at] + struct.pack("<d", pool + 1) + header[at + 8 :]
            self.client.hset(key, "header", changed)

    def copied(self) -> Callable[[], None]:
        keys = {one for each in self.keys.values() for one in each}
        dumps = {key: self.client.dump(key) for key in keys}

        def restore() -> None:
            for key, dump in dumps.items():
                if dump is None:
                    self.client.delete(key)
                else:
                    self.client.restore(key, 0, dump, replace=True)

        return restore


def plain(value: Any) -> Any:
    """As values that show what differs."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Ledger):
        return [(float(at), cost) for at, cost in value.entries]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two plain values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line
            for name in sorted({*one, *other}, key=str)
            for line in differences(one.get(name), other.get(name), f"{path}.{name}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line
            for at, pair in enumerate(zip(one, other, strict=True))
            for line in differences(*pair, f"{path}[{at}]")
        ]
    return [] if one == other else [f"{path}: {one!r} in Python, {other!r} in Lua"]


class History:
    """One random history, played to both. What differs raises DifferenceError."""

    def __init__(self, client: Redis, seed: int, compare_every: int = 10) -> None:
        client.flushall()
        self.seed = seed
        self.random = random = Random(seed)
        registered = random.random() < 0.8
        self.python, self.redis = InPython(registered), InRedis(client, registered)
        self.compare_every = compare_every
        if registered and random.random() < 0.7:
            for one in (self.python, self.redis):
                one.mark("server1")
        self.clock = 1_700_000_000_000 + random.randrange(10**9)
        self.now = 1000.0
        self.server = "server1"
        self.tokens = 0
        period = random.choice((10, 500, 1_000, 1_000, 2_345, 60_000))
        lease = random.choice((400, 2_000, 2_000, 5_000))
        capacity = random.choice((1e-3, 7.3, 100.0, 1_000.0, 1_000.0, 123_456.7, 1e12))
        self.terms = Terms(capacity, capacity / random.choice((1, 3.7, 20)), period, lease)
        self.shares: dict[tuple[str, str], InstanceShare] = {}
        self.pieces: dict[str, float] = {}
        self.sent: list[tuple[str, Request]] = []
        self.hostile = random.choice((0.0, 0.0, 0.05, 0.3))
        self.calm = random.choice((0.9, 0.98, 0.995, 1.0))
        self.nonces = [""]
        self.calls = 0
        self.longest = 0
        self.kinds: dict[str, int] = {}
        self.restore: list[Callable[[], None]] = []
        self.copied_from = self.server
        for at in range(random.choice((1, 2, 3, 3, 5, 5, 8, 8, 40, 120))):
            self._join(f"instance{at}")

    def _join(self, instance: str) -> None:
        random = self.random
        name = NAMES[0] if random.random() < 0.8 else NAMES[1]
        terms = self.terms
        if random.random() < 0.03:
            terms = replace(terms, lease=terms.lease + 100)
        self.shares[name, instance] = InstanceShare(
            instance,
            terms,
            interval=random.choice((0.1, 0.5)),
            weight=random.choice((1000, 1000, 1, 1_000_000, 777)),
            label=random.choice(("", "host/1", "höst/2")),
        )
        share = random.choice((1e-4, 0.01, 0.03, 0.2, 0.5, 1.0))
        self.pieces[instance] = self.terms.capacity * share

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._pass_time()
            if self.random.random() < self.calm:
                self._one_calls()
            else:
                self._something_happens()
        for name in NAMES:
            self._compare(name)

    def crowd(self, count: int, rounds: int) -> None:
        """So many ask for a permit that the header does not keep them all."""
        random, terms = self.random, Terms(50.0, 1.0, 1_000, 2_000)
        born = [0] * count
        for name in NAMES:
            self._both("lose", name)
        for round_ in range(1, rounds + 1):
            for at in range(count):
                self.clock += random.choice((0, 3, 9))
                request = Request(
                    f"instance{at:03}",
                    round_,
                    terms,
                    born=born[at],
                    nonce=random.choice(self.nonces[-3:]),
                    need=random.choice((0.1, 3.0, 70.0)),
                    ask=random.choice((0.0, 1.0, 1.0, 1.0, 5.0)),
                    gathers=random.random() < 0.2,
                    waited=random.choice((0, 0, 100)),
                    weight=random.choice((1000, 1000, 1, 5000)),
                    valid=200,
                )
                born[at] = self._sync(NAMES[0], request).born
            if round_ == 1:
                self.clock += 1 + self.random.randrange(7_000)
        self._compare(NAMES[0])

    def _pass_time(self) -> None:
        random = self.random
        passed = random.choice((0, 1, 7, 50, 50, 130))
        if random.random() < 0.02:
            passed = random.choice((900, 3_000, 9_000))
        self.now += passed / 1000
        self.clock += passed
        if random.random() < 0.01:
            self.clock += random.choice((15, 40, 300, 60_000, 3_600_000, -5, -200, -60_000))

    def _one_calls(self) -> None:
        random = self.random
        (name, instance), share = random.choice(list(self.shares.items()))
        if random.random() < 0.1 and self.sent:
            self._sync(*random.choice(self.sent[-30:]))  # a late copy
            return
        self._work(share)
        leaves = share.pending is None and share.reply is not None and random.random() < 0.02
        request = share.leave(self.now, (1.0,)) if leaves else share.compose(self.now, (2.0, 0.5))
        sent_at = self.now
        self.sent.append((name, request))
        if random.random() < self.hostile:
            request = self._changed(request)
            self.sent.append((name, request))
        if random.random() < 0.05:
            share.unanswered(self.now)  # it is lost on its way
            return
        reply = self._sync(name, request)
        if random.random() < (0.3 if reply.given else 0.07):
            share.unanswered(self.now)  # the reply is lost
            if reply.given and random.random() < 0.5:
                self._both("lose_grants", name)
                if random.random() < 0.3:
                    self._sync(name, replace(request, seq=request.seq + 1, born=1))
            return
        delay = random.choice((0, 1, 20))
        self.now += delay / 1000
        self.clock += delay
        if share.pending is None or reply.seq != share.pending.seq:
            self._replace(name, instance)
            return
        news = share.answered(reply, sent_at, self.now)
        if news.disowned or share.left:
            self._replace(name, instance)

    def _replace(self, name: str, instance: str) -> None:
        del self.shares[name, instance]
        self._join(f"{instance}x")

    def _work(self, share: InstanceShare) -> None:
        random = self.random
        piece = self.pieces[share.instance]
        share.settle(self.now)
        for _ in range(random.choice((0, 1, 3))):
            for source in (share.ledger, share.permit):
                if source.available(self.now, 0.0) >= piece:
                    source.hold(piece)
                    if source is share.ledger:
                        spend = share.ledger.charge(piece, self.now, share.tenure)
                    else:
                        spend = share.permit.charge(piece, self.now)
                    if random.random() < 0.8:
                        spend.started(self.now)
                    break
        waiting = piece * random.choice((0, 1, 5, 1000))
        gathers = waiting and piece > share.burst(self.now) and random.random() < 0.7
        share.want(waiting, piece if gathers else 0.0, self.now)
        share.short(waiting > 0 and random.random() < 0.7, self.now)

    def _changed(self, request: Request) -> Request:
        """A request that no instance would make."""
        random = self.random
        entries = tuple(
            (random.choice((0, 5, 400, 10**6)), random.choice((0.0, 1e-9, 3.3, 1e9)))
            for _ in range(random.choice((0, 1, 3, 120, 300)))
        )
        stamped = tuple((self.clock - age, cost) for age, cost in entries)
        cost = self.terms.capacity * 10 ** random.uniform(-6, 3)
        units = random.choice((0, 1, UNITS // 3, UNITS, random.randrange(UNITS)))
        changes: list[dict[str, Any]] = [
            {"seq": max(0, request.seq + random.choice((-1, 1, 1, 5)))},
            {"born": random.choice((0, 1, request.born + 1))},
            {"server": random.choice(("", "server1", "server9", self.server))},
            {"server": "server9", "age": 0, "nonce": self.nonces[-1] or request.nonce},
            {"age": random.choice((0, 1, 10**5))},
            {"nonce": random.choice(self.nonces)},
            {"ended": not request.ended},
            {"confirmed": random.choice((-1, 0, self.clock, self.clock + 10**6))},
            {"tries": random.choice((0, 1, 2, 9))},
            {"units": units, "left": random.choice((0, 1, 1000))},
            {"released": units, "history": entries, "stamped": stamped},
            {"need": cost, "by_permit": cost * random.random() * 2},
            {"ask": cost, "gathers": random.random() < 0.5, "waited": random.randrange(10**5)},
            {"piece": cost},
            {"valid": random.choice((1, 300, 4_000)), "interval": random.choice((1, 50, 10**5))},
            {"weight": random.choice((1, 3, 1_000_000))},
            {"leaving": True},
            {"permit": request.born + 1, "permit_spent": ((-1, cost), *entries[:3])},
            {"totals": tuple(random.random() for _ in range(random.choice((0, 1, 13))))},
            {"label": "x" * random.choice((0, 300)), "reserved": cost, "spent": cost},
            {"format": FORMAT + 1},
            {"terms": replace(request.terms, capacity=cost)},
            {"terms": replace(request.terms, version=self.clock, served=random.random() < 0.5)},
            {"terms": replace(request.terms, period=700, served=True)},
            {"terms": replace(request.terms, lease=300)},
            {
                "terms": replace(
                    request.terms, in_force=request.terms.capacity / 3, rising=0.01, served=True
                )
            },
        ]
        change: dict[str, Any] = {}
        for _ in range(random.choice((1, 1, 2, 5))):
            change |= random.choice(changes)
        return replace(request, **change)

    def _something_happens(self) -> None:
        random = self.random
        name = random.choice(NAMES)
        what = random.randrange(13)
        if what < 3:
            capacity = random.choice((None, self.terms.capacity * random.choice((0.3, 1, 2.7))))
            self._set_terms(
                name,
                capacity=capacity,
                factor=random.choice((None, self.terms.factor, self.terms.capacity / 10_100)),
                period=random.choice((None, None, self.terms.period, 600)),
                lease=random.choice((None, None, self.terms.lease, 1_000)),
                ramp=random.choice((None, self.terms.capacity / 10_000)),
            )
        elif what == 3:
            self._both("delete", name, self.server, self.clock, self._token())
            if random.random() < 0.5:
                self._set_terms(name, capacity=7.0, factor=1.0, period=700, lease=900)
        elif what == 4:
            instance = random.choice([*(one for _, one in self.shares), "nobody"])
            self._both("evict", name, instance)
        elif what == 5:
            self.server = f"server{random.randrange(4)}"
            self.clock += random.choice((0, 0, 1, -5_000, 5_000, 10**7))
        elif what == 6:
            self._both("lose", name)
        elif what == 7:
            self._both("lose_registry")
        elif what == 8:
            self._both("lose_grants", name)
        elif what == 9 and random.random() < 0.3:
            self._both("corrupt", name)
            if random.random() < 0.5:
                self._both("delete", name, self.server, self.clock, self._token())
        elif what == 10:
            self.restore = [self.python.copied(), self.redis.copied()]
            self.copied_from = self.server
        elif what == 11:
            for restore in self.restore:
                restore()
            if random.random() < 0.7:
                self.server = self.copied_from  # an old server is in charge again
        else:
            self._join(f"late{self.calls}")

    def _set_terms(self, name: str, **terms: float | None) -> None:
        self._both("set_terms", name, self.server, self.clock, self._token(), **terms)

    def _token(self) -> str:
        self.tokens += 1
        return f"token{self.tokens}"

    def _sync(self, name: str, request: Request) -> Reply:
        reply: Reply = self._both("sync", name, request, self.server, self.clock)
        self.nonces.append(reply.nonce)
        self.calls += 1
        self.kinds[reply.kind] = self.kinds.get(reply.kind, 0) + 1
        self.longest = max(self.longest, reply.waiting)
        if reply.permit:
            self.kinds["permit"] = self.kinds.get("permit", 0) + 1
        if reply.given:
            self.kinds["given"] = self.kinds.get("given", 0) + 1
        return reply

    def _both(self, method: str, *arguments: Any, **named: Any) -> Any:
        expected = getattr(self.python, method)(*arguments, **named)
        got = getattr(self.redis, method)(*arguments, **named)
        self._check(plain(expected), plain(got), f"{method} {arguments}")
        if self.calls % self.compare_every == 0 and method != "lose_registry":
            self._compare(arguments[0])
        return got

    def _compare(self, name: str) -> None:
        self._check(self.python.stored(name), self.redis.stored(name), f"stored of {name}")

    def _check(self, expected: Any, got: Any, what: str) -> None:
        if different := differences(expected, got):
            lines = "\n".join(different[:20])
            raise DifferenceError(f"seed {self.seed}, call {self.calls}, {what}:\n{lines}")


@pytest.mark.parametrize(
    "batch", [*range(5), *(pytest.param(batch, marks=pytest.mark.long) for batch in range(5, 10))]
)
def test_scripts_answer_and_store_what_the_reference_does(
    shared_redis: EmbeddedRedis, batch: int
) -> None:
    with Redis.from_url(shared_redis.url) as client:
        for seed in range(batch * HISTORIES, (batch + 1) * HISTORIES):
            History(client, seed).run(STEPS)


def test_long_queue_keeps_the_same_instances(shared_redis: EmbeddedRedis) -> None:
    with Redis.from_url(shared_redis.url) as client:
        for seed in range(3):
            history = History(client, seed, compare_every=10)
            history.crowd(70, rounds=4)
            assert history.longest == QUEUE_LENGTH


def run(first: int, count: int, steps: int = 200) -> None:
    """Plays histories `first` to `first + count`, and compares after each call."""
    kinds: dict[str, int] = {}
    with EmbeddedRedis() as server, Redis.from_url(server.url) as client:
        for seed in range(first, first + count):
            history = History(client, seed, compare_every=1)
            history.run(steps)
            for kind, times in history.kinds.items():
                kinds[kind] = kinds.get(kind, 0) + times
    sys.stdout.write(f"{count} histories agree: {kinds}\n")


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
