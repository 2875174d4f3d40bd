"""Random histories of gates that are interrupted between portions, or end there: whatever happens,
each message and each registration comes out once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import pytest
from redis import Redis

from dispatcher.registration import EntityStoreError, RedisEntityStore, RegistrationGate, Release
from limiters._redis.script import Script
from limiters.embedded import EmbeddedRedis

ENTITIES = 80


class BreakingStore(RedisEntityStore):
    """Redis cannot be reached any more when it has run as many scripts as it may."""

    left: int | None = None
    told = False
    """Whether it has received something completely: that would be lost with it."""

    def run(self, script: Script, arguments: list[str | bytes]) -> list[Any]:
        if self.left == 0:
            raise EntityStoreError("away")
        self.left = None if self.left is None else self.left - 1
        answer = super().run(script, arguments)
        self.told = self.told or b"done" in answer
        return answer


class History:
    """Three gates of one name; what comes out of them."""

    def __init__(self, server: EmbeddedRedis, client: Any, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = server
        self.client = client
        self.sent: Counter[tuple[str, object]] = Counter()
        self.out: list[Release] = []
        self.interrupted = 0
        self.ask_later: list[RegistrationGate] = []
        self.gates = [self.new_gate() for _ in range(3)]

    def new_gate(self) -> tuple[RegistrationGate, BreakingStore]:
        store = BreakingStore(self.server.url, name="plant", timeout=10, refresh=0.01)
        return RegistrationGate(store, telemetry_per_entity=10_000), store

    def call(self, ask: Callable[[RegistrationGate], list[Release]]) -> None:
        """By one of the gates, until one is not interrupted. One that is ends there, or goes on."""
        for _ in range(20):
            at = self.chance.randrange(len(self.gates))
            gate, store = self.gates[at]
            store.told = gate in self.ask_later
            store.left = self.chance.choice([None, 1, 2, 3, 3])
            try:
                self.out += ask(gate)
            except EntityStoreError:
                self.interrupted += 1
                store.left = None
                if not store.told and self.chance.random() < 0.5:
                    gate.close()
                    self.gates[at] = self.new_gate()
                else:
                    # What it has begun comes out of a later call, perhaps of another gate.
                    self.ask_later.append(gate)
            else:
                break
            if self.chance.random() < 0.6:
                self.abandon()
            if self.chance.random() < 0.6:
                self.offer("known")
        for _, store in self.gates:
            store.left = None
        for gate in self.ask_later:
            self.out += gate.register("known")
        self.ask_later.clear()

    def abandon(self) -> None:
        """Pretend that gates with unfinished work have not continued it for long."""
        for key in self.client.keys("*:unfinished"):
            for agenda in self.client.zrange(key, 0, -1):
                self.client.zadd(key, {agenda: 1})

    def offer(self, entity: str) -> None:
        message = sum(self.sent.values())
        self.sent[entity, message] += 1
        gate, store = self.chance.choice(self.gates)
        store.left = None
        self.out += gate.offer(entity, message, metadata=self.chance.random() < 0.3)


@pytest.mark.parametrize("seed", range(3))
def test_r9_whatever_is_interrupted_everything_comes_out_once(
    shared_redis: EmbeddedRedis, connect: Callable[[str], Redis], seed: int
) -> None:
    history = History(shared_redis, connect(shared_redis.url), seed)
    chance = history.chance
    history.out += history.gates[0][0].register("known")
    families = 3
    for family in range(families):
        names = [f"{family}.{number}" for number in range(ENTITIES)]
        for at, name in enumerate(chance.sample(names, ENTITIES)):
            for _ in range(chance.choice([0, 1, 2, 60])):
                history.offer(name)
            parent = chance.choice(names[:at]) if at and chance.random() < 0.3 else None
            above = parent if parent and parent < name else f"top{family}"
            history.gates[0][0].register(name, parent=above)
        history.call(methodcaller("register", f"top{family}"))
    history.abandon()
    for gate, store in history.gates * 2:
        store.left = None
        history.out += gate.register("known")
        history.offer("known")
    assert history.interrupted > 0
    assert history.gates[0][0].pending == 0
    out = Counter(
        (release.entity, message) for release in history.out for message in release.messages
    )
    assert out == history.sent
    registered = Counter(
        release.entity for release in history.out if release.registration is not None
    )
    every = {f"{family}.{number}" for family in range(families) for number in range(ENTITIES)}
    assert registered == Counter({"known", *every, *(f"top{one}" for one in range(families))})
