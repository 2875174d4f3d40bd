"""Every damage to what Redis keeps of a limit, by name."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from limiters.leases._codec import checksum, header_checksum
from limiters.leases._format import CHECK_LENGTH
from tests.hostile import keys
from tests.hostile.limit import (
    FIELD_KINDS,
    KEYS,
    LIMIT,
    VALUES,
    Scene,
    damage_field,
    numbers,
    with_number,
)
from tests.samples import sample

Damage = Callable[[Any], None]
Case = tuple[str, Damage]
KEY_KINDS = [kind for kind in keys.KINDS if not kind.endswith(" scores")]


def to_keys(seeds: int = 3) -> Iterator[Case]:
    """Damages of each whole key."""
    for key in KEYS:
        for kind in KEY_KINDS:
            for seed in range(seeds):
                yield f"{key} {kind} {seed}", _of_key(key, kind, seed)


def _of_key(key: str, kind: str, seed: int) -> Damage:
    def damage(client: Any) -> None:
        keys.damage(client, key, kind, random.Random(seed))

    return damage


def to_fields(scene: Scene) -> Iterator[Case]:
    """Damages of each field of each hash."""
    scene.put_back()
    for key, field in scene.fields():
        for kind in FIELD_KINDS:
            yield f"{key} {field!r} {kind}", _of_field(key, field, kind)


def _of_field(key: str, field: bytes, kind: str) -> Damage:
    return lambda client: damage_field(client, key, field, kind)


def to_numbers() -> Iterator[Case]:
    """Damages of each number of the header and of two records."""
    for field, place, name in numbers():
        for number in VALUES:
            yield f"{field!r} {name} {number}", _of_number(field, place, number)


def _of_number(field: bytes, place: int, number: float) -> Damage:
    def damage(client: Any) -> None:
        client.hset(LIMIT, field, with_number(client.hget(LIMIT, field), place, number))

    return damage


def on_purpose() -> Iterator[Case]:
    """Write the same numbers with the checksums that fit them."""
    for field, place, name in numbers():
        for number in VALUES:
            yield f"{field!r} {name} {number}, valid", _valid(field, place, number)


def _valid(field: bytes, place: int, number: float) -> Damage:
    def damage(client: Any) -> None:
        _of_number(field, place, number)(client)
        keys_of_it = client.hgetall(LIMIT)
        packed = keys_of_it[field][:-CHECK_LENGTH]
        seal = (
            header_checksum(packed, keys_of_it) if field == b"header" else checksum(field, packed)
        )
        client.hset(LIMIT, field, packed + seal)

    return damage


PARTS = 13
"""A prime, so that each part has each kind of damage."""

PART = sample(range(PARTS), every=PARTS)
"""For `parametrize`: of the parts of a list of cases, the first is run by `make test`."""


def failures(
    scene: Scene,
    cases: Iterable[Case],
    part: int,
    check: Callable[[Scene, str, Damage], None],
) -> list[str]:
    """Check every PARTS-th case. Return the failures."""
    failed = []
    for name, damage in islice(cases, part, None, PARTS):
        try:
            check(scene, name, damage)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}"[:300])
    return failed


def report(failed: list[str]) -> str:
    """Return the failures as text, the first forty of them."""
    return f"{len(failed)} of the cases:\n" + "\n".join(failed[:40])
