"""Cost of a gate that many processes share: look-ups, large families, changes by others.

Rates are of the wall clock, Redis included; compared with as many plain HGETs in pipelines, the
minimum that Redis and its client cost. Script times are measured by the server: `INFO commandstats`
for the mean, its slow log for the longest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from redis import Redis

from benchmarks.figures import Figure
from dispatcher.registration import RedisEntityStore, Registration, RegistrationGate
from limiters.embedded import EmbeddedRedis

ENTITIES = 100_000
AT_ONCE = 1_000
CHILDREN = 5_000
MESSAGES = 10


def run() -> Iterator[Figure]:
    """Measure a gate in Redis."""
    with EmbeddedRedis() as server, Redis.from_url(server.url) as client:
        yield from _looking_up(server, client)
        client.flushall()
        yield from _a_family(server, client)


def _gate(server: EmbeddedRedis, **bounds: Any) -> RegistrationGate:
    store = RedisEntityStore(server.url, name="plant", timeout=30, refresh=60)
    return RegistrationGate(store, **bounds)


def _looking_up(server: EmbeddedRedis, client: Any) -> Iterator[Figure]:
    names = [f"device/{number}" for number in range(ENTITIES)]
    registering = _gate(server)
    registering.register("plant")
    started = time.perf_counter()
    with _Scripts(client) as scripts:
        registering.register_many(Registration(name, "plant") for name in names)
    rate = ENTITIES / (time.perf_counter() - started)
    note = f"{scripts.mean_ms:.2f} ms a script, the longest {scripts.longest_ms:.1f} ms"
    yield Figure(f"register_many of {ENTITIES:,} on Redis", rate, "a second", note=note)

    key = registering_key(client)
    plain = []
    for _ in range(3):
        started = time.perf_counter()
        for start in range(0, ENTITIES, AT_ONCE):
            with client.pipeline(transaction=False) as pipeline:
                for name in names[start : start + AT_ONCE]:
                    pipeline.hget(key, name)
                pipeline.execute()
        plain.append(ENTITIES / (time.perf_counter() - started))
    rates = []
    for _ in range(3):
        new = _gate(server)
        with _Scripts(client) as scripts:
            started = time.perf_counter()
            for start in range(0, ENTITIES, AT_ONCE):
                passed = new.offer_many((name, 1) for name in names[start : start + AT_ONCE])
                assert len(passed) == len(names[start : start + AT_ONCE])
            rates.append(ENTITIES / (time.perf_counter() - started))
    note = (
        f"{max(rates):,.0f} a second in {scripts.calls:,} calls; {scripts.mean_ms:.2f} ms each, "
        f"the longest {scripts.longest_ms:.1f} ms"
    )
    name = f"a new process passes {ENTITIES:,} entities, against pipelined HGETs"
    yield Figure(name, max(rates) / max(plain), "x", at_least=0.5, note=note)

    registering.deregister(names[0])
    new.evict()  # as after `refresh`
    with _Scripts(client) as scripts:
        new.offer_many((name, 1) for name in names)
    note = "a look-up, and one that is held, whose script the server is given"
    name = f"calls to pass {ENTITIES:,} entities after another process removed one"
    yield Figure(name, scripts.calls, "calls", at_most=3, note=note)


def registering_key(client: Any) -> str:
    """The hash of entities."""
    (key,) = client.keys("*:entities")
    return str(key.decode())


def _a_family(server: EmbeddedRedis, client: Any) -> Iterator[Figure]:
    for shape in ("of children of one parent", "of one entity"):
        runs = []
        for _ in range(3):
            gate = _filled(server, alone=shape == "of one entity")
            with _Scripts(client) as scripts:
                started = time.perf_counter()
                released = gate.register("top")
                scripts.took = time.perf_counter() - started
            assert sum(len(one.messages) for one in released) == CHILDREN * MESSAGES
            runs.append(scripts)
            gate.close()
            client.flushall()
        # A script that waits for a processor looks long; one that is long is so in each run.
        best = min(runs, key=lambda one: one.longest_ms)
        note = f"{best.calls} scripts, {best.mean_ms:.2f} ms on average, {best.took:.2f} s in all"
        name = f"the longest script, {CHILDREN * MESSAGES:,} messages {shape} set free"
        yield Figure(name, best.longest_ms, "ms", at_most=5, note=note)


def _filled(server: EmbeddedRedis, *, alone: bool) -> RegistrationGate:
    gate = _gate(
        server,
        pending_entities=CHILDREN,
        telemetry_limit=CHILDREN * MESSAGES,
        telemetry_per_entity=CHILDREN * MESSAGES,
    )
    for number in range(CHILDREN):
        name = "top" if alone else f"device/{number}"
        if not alone:
            gate.register(name, parent="top")
        for _ in range(MESSAGES):
            gate.offer(name, number)
    return gate


class _Scripts:
    """Number and times of the scripts that ran in its block, by the server's own clocks."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls = 0
        self.mean_ms = self.longest_ms = self.took = 0.0

    def __enter__(self) -> _Scripts:
        self._client.config_set("slowlog-log-slower-than", 100)
        self._client.config_set("slowlog-max-len", 100_000)
        self._client.slowlog_reset()
        self._client.config_resetstat()
        return self

    def __exit__(self, *error: object) -> None:
        stats = self._client.info("commandstats")
        scripts = [
            one for name, one in stats.items() if name in ("cmdstat_eval", "cmdstat_evalsha")
        ]
        self.calls = sum(one["calls"] for one in scripts)
        spent = sum(one["usec"] for one in scripts)
        self.mean_ms = spent / self.calls / 1_000 if self.calls else 0.0
        slow = self._client.slowlog_get(100_000)
        durations = [one["duration"] for one in slow if one["command"].startswith(b"EVAL")]
        self.longest_ms = max(durations, default=0) / 1_000
