"""Kinds of damage to a key in Redis, of whatever type it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from redis import Redis

Change = Callable[[bytes, random.Random], bytes]
"""Makes another text of a value that is stored."""


def _truncated(value: bytes, chance: random.Random) -> bytes:
    return value[: len(value) // 2]


def _a_bit_flipped(value: bytes, chance: random.Random) -> bytes:
    if not value:
        return b"\1"
    at = chance.randrange(len(value))
    return value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :]


TEXTS: dict[str, Change] = {
    "emptied": lambda value, chance: b"",
    "truncated": _truncated,
    "a bit flipped": _a_bit_flipped,
    "negative": lambda value, chance: b"-1",
    "nan": lambda value, chance: b"nan",
    "huge": lambda value, chance: chance.choice([b"9" * 400, b"1e300", b"inf", b"x" * 100_000]),
    "nested deep": lambda value, chance: b"[" * 100_000,
    "of another format": lambda value, chance: chance.choice(
        [b'{"version":9}', b"\x93\x01\x02\x03", b"[1,2,3]", b"null", b"\xff\xfe\0"]
    ),
}
"""Replacements for the values of a hash, the entries of a set, a string."""

NUMBERS: dict[str, Callable[[float, random.Random], float]] = {
    "negative": lambda score, chance: -1.0,
    "nan": lambda score, chance: float("-inf"),  # no score is ever nan
    "huge": lambda score, chance: chance.choice([float("inf"), 1e300, 2.0**60]),
    "a bit flipped": lambda score, chance: float(int(score) ^ 1 << chance.randrange(40)),
    "truncated": lambda score, chance: score / 1000,
}
"""Replacements for the scores of a sorted set."""

ANOTHER_TYPE = "of another type"
KINDS = (
    *("missing", "expired", ANOTHER_TYPE, "halved", "one is left", "with strays"),
    *TEXTS,
    *(f"{kind} scores" for kind in NUMBERS),
)


def damage(client: Redis, key: bytes | str, kind: str, chance: random.Random) -> bool:
    """Damages a key; whether there was something to damage in this way."""
    any_client: Any = client
    type_ = any_client.type(key).decode()
    if kind == "missing":
        return bool(any_client.delete(key))
    if kind == "expired":
        return bool(any_client.pexpire(key, -1))
    if kind == ANOTHER_TYPE:
        any_client.delete(key)
        if type_ == "list":
            return bool(any_client.set(key, "x"))
        return bool(any_client.rpush(key, "x"))
    if type_ == "hash":
        return _damage_hash(any_client, key, kind, chance)
    if type_ == "zset":
        return _damage_set(any_client, key, kind, chance)
    if type_ == "string" and kind in TEXTS:
        any_client.set(key, TEXTS[kind](any_client.get(key), chance), keepttl=True)
        return True
    return False


def _damage_hash(client: Any, key: bytes | str, kind: str, chance: random.Random) -> bool:
    fields = client.hgetall(key)
    if kind in ("halved", "one is left"):
        gone = chance.sample(sorted(fields), _gone(len(fields), kind))
        return bool(gone) and bool(client.hdel(key, *gone))
    if kind == "with strays":
        strays = {b"": b"", b"stray": b"stray", b"7": b"7", b"\xff": b"\xff"}
        client.hset(key, mapping=strays)
        return True
    if kind not in TEXTS:
        return False
    client.hset(key, mapping={one: TEXTS[kind](value, chance) for one, value in fields.items()})
    return True


def _damage_set(client: Any, key: bytes | str, kind: str, chance: random.Random) -> bool:
    members = dict(client.zrange(key, 0, -1, withscores=True))
    if kind in ("halved", "one is left"):
        gone = chance.sample(sorted(members), _gone(len(members), kind))
        return bool(gone) and bool(client.zrem(key, *gone))
    if kind == "with strays":
        score = next(iter(members.values()))
        client.zadd(key, {b"": score, b"stray": score, b"7": score, b"\xff": score})
        return True
    if kind.endswith(" scores"):
        change = NUMBERS[kind.removesuffix(" scores")]
        client.zadd(key, {one: change(score, chance) for one, score in members.items()})
        return True
    client.delete(key)
    client.zadd(key, {TEXTS[kind](one, chance): score for one, score in members.items()})
    return True


def _gone(count: int, kind: str) -> int:
    return count - 1 if kind == "one is left" else (count + 1) // 2


class Kept:
    """All keys of a server as they are now, to be put back as often as needed."""

    def __init__(self, client: Redis) -> None:
        server: Any = client
        self._client = server
        self._dumps: dict[bytes, bytes] = {key: server.dump(key) for key in server.keys("*")}

    @property
    def keys(self) -> list[bytes]:
        return sorted(self._dumps)

    def put_back(self) -> None:
        """Makes the server hold this and nothing else."""
        with self._client.pipeline(transaction=True) as way:
            way.flushall()
            for key, dump in self._dumps.items():
                way.restore(key, 0, dump)
            way.execute()
