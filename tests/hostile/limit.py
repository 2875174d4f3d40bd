"""A limit in Redis whose time a test turns, and damage to each part of what is stored of it."""

from __future__ import annotations

import copy
import math
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis import Redis

from limiters import RedisLeaseManager
from limiters._redis.script import of_source
from limiters.leases import redis as module
from limiters.leases._codec import limit_of
from limiters.leases._coordinator.state import Limit
from limiters.leases._format import (
    HEADER,
    HEADER_BOUND,
    RECORD,
    RECORD_BOUND,
    SCANNED,
    SCANNED_BOUND,
    UNITS,
)
from limiters.leases._messages import Request, Terms
from limiters.leases._scripts import TWIN, keys_of, source_of
from tests.hostile.keys import TEXTS, Kept
from tests.story import Instance, Story

NAME, OTHER = "orders", "mails"
LIMIT, GRANTS, PEOPLE, OLD, REGISTRY = KEYS = keys_of("dispatcher", NAME)
TEXTS_OF_HEADER = (
    b"header",
    b"server",
    b"nonce",
    b"cause",
    b"layout",
    b"ledger",
    b"returning",
    b"lots",
    b"queue",
)
TERMS = Terms.scalar(capacity=1_000.0, factor=50.0, period=1_000, lease=2_000)

BY_KEYS = """
local function server_time() return tonumber(redis.call('GET', 'clock')) end
local function server_identity() return redis.call('GET', 'identity'), '7.0.0' end
"""
"""In the place of limit_server.lua: two keys say who the server is, and what its clock says."""

TURNED = {
    name: of_source(source_of(*parts, server=BY_KEYS))
    for name, parts in {
        "SYNC": (*TWIN, "sync"),
        "SET": (*TWIN, "set"),
        "DELETE": (*TWIN, "delete"),
        "EVICT": (*TWIN, "evict"),
        "LOOK": ("keys", "look"),
    }.items()
}


@contextmanager
def in_turned_time() -> Iterator[None]:
    """All managers of this process send scripts whose time the test turns."""
    with pytest.MonkeyPatch.context() as patch:
        for name, script in TURNED.items():
            patch.setattr(module, name, script)
        yield


class ScriptServer:
    """The scripts inside Redis, as the server of a story."""

    def __init__(self, client: Redis, name: str = NAME) -> None:
        self.client: Any = client
        self.manager = RedisLeaseManager(client, name=name)

    def sync(self, request: Request, now: float) -> Any:
        self.client.set("clock", math.floor(now * 1_000))
        return self.manager.sync(request)


class Scene:
    """A limit in the middle of its work, to be damaged and put back as often as needed."""

    def __init__(self, client: Redis) -> None:
        self.client: Any = client
        client.flushall()
        client.eval(
            source_of(
                "registry", "mark", server=BY_KEYS.replace("redis.call('GET', 'identity')", "'one'")
            ),
            1,
            REGISTRY,
        )
        client.set("identity", "one")
        client.set("clock", 100_000)
        other = RedisLeaseManager(client, name=OTHER)
        other.set_terms(capacity=70.0, factor=1.0, period=1.0, lease_time=5.0)
        self.server = ScriptServer(client)
        story = Story(self.server)  # type: ignore[arg-type]
        story.join("a", TERMS, backlog=1e6)
        story.join("b", TERMS, backlog=1e6, cost=200.0)
        story.join("c", TERMS, backlog=500.0)
        story.run(1.4)
        story.join("d", TERMS, backlog=1e6, cost=900.0)
        story.run(0.61)
        late = Instance("e", TERMS, backlog=40.0)
        late.share.want(40.0, 0.0, story.now)
        late.ask(self.server, story.now)  # type: ignore[arg-type]
        story.instances.append(late)
        self.now = story.now
        self._instances = story.instances
        self._kept = Kept(client)
        limit = self.stored()
        assert limit.bounds[0].pool
        assert limit.queue
        assert limit.bounds[0].ledger.entries
        self.limit = limit

    def stored(self) -> Limit:
        limit = limit_of(*(dict(self.client.hgetall(key)) for key in (LIMIT, PEOPLE, GRANTS)))
        assert limit is not None
        return limit

    def put_back(self) -> list[Instance]:
        """All of it as it was; and the instances, as they were."""
        self._kept.put_back()
        return copy.deepcopy(self._instances)

    def fields(self) -> list[tuple[str, bytes]]:
        """Each field of each hash."""
        return [
            (key, field)
            for key in (LIMIT, GRANTS, PEOPLE, REGISTRY)
            for field in sorted(self.client.hkeys(key))
        ]

    def strays(self) -> list[bytes]:
        """The fields of the limit that are none of its header, no record and no block of names."""
        return [
            one
            for one in self.client.hkeys(LIMIT)
            if not one.startswith((b"=", b"#")) and one not in TEXTS_OF_HEADER
        ]

    def free(self) -> float:
        """The cost that the pool has left to spend, counted again from its ledger."""
        [bound] = self.limit.bounds
        spent = bound.ledger.total(math.floor(self.now * 1_000) - TERMS.counts)
        return bound.pool * bound.worth(self.limit.now) - spent

    def power(self, instances: list[Instance]) -> float:
        """The cost that the instances may spend at this moment."""
        return math.fsum(
            max(0.0, one.share.ledger.available(self.now, 0.0))
            + max(0.0, one.share.permit.available(self.now))
            for one in instances
            if one.share.settle(self.now) >= 0
        )


# Damage to one field.


def _of_a_neighbour(client: Any, key: str, field: bytes, value: bytes) -> bytes:
    others = sorted(one for one in client.hkeys(key) if one != field)
    return client.hget(key, others[0]) if others else b""


FIELD_KINDS = ("lost", *TEXTS, "of a neighbour", "noise", "longer", *(f"bit {n}" for n in range(8)))


def damage_field(client: Any, key: str, field: bytes, kind: str, seed: int = 0) -> None:
    """Damages one field of a hash."""
    chance = random.Random(f"{key} {field!r} {kind} {seed}")
    value = client.hget(key, field)
    if kind == "lost":
        client.hdel(key, field)
        return
    if kind == "of a neighbour":
        changed = _of_a_neighbour(client, key, field, value)
    elif kind == "noise":
        changed = chance.randbytes(len(value))
    elif kind == "longer":
        changed = value + bytes(8)
    elif kind.startswith("bit "):
        changed = TEXTS["a bit flipped"](value, chance)
    else:
        changed = TEXTS[kind](value, chance)
    client.hset(key, field, changed)


# Damage to one number.

VALUES = (math.nan, math.inf, -math.inf, 0.0, -1.0, 0.5, 1e-9, 1e300, -1e300, 2.0**53, float(UNITS))


def numbers() -> list[tuple[bytes, int, str]]:
    """Each number of the header and of a record: field, place, name."""
    header = (*HEADER, *HEADER_BOUND)
    record = (
        *(*SCANNED, *SCANNED_BOUND),
        *(*RECORD[len(SCANNED) :], *RECORD_BOUND[len(SCANNED_BOUND) :]),
    )
    return [
        (field, place, one.name)
        for field, declared in ((b"header", header), (b"=a", record), (b"=d", record))
        for place, one in enumerate(declared)
    ]


def with_number(value: bytes, place: int, number: float) -> bytes:
    """A text of packed numbers with another one in its place."""
    return value[: 8 * place] + struct.pack("<d", number) + value[8 * place + 8 :]
