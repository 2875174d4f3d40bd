"""Whatever becomes of what Redis keeps of a limit: a call heals it, or says what is wrong; nobody
is granted too much, nothing crashes or hangs, and what mends it works when it is needed (law C8).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from limiters import LeaseManagerError
from limiters.embedded import EmbeddedRedis
from tests.hostile import keys
from tests.hostile.limit import (
    FIELD_KINDS,
    KEYS,
    LIMIT,
    TERMS,
    VALUES,
    Scene,
    damage_field,
    in_turned_time,
    numbers,
    with_number,
)
from tests.story import Instance

Damage = Callable[[Any], None]
WHOLE = [kind for kind in keys.KINDS if not kind.endswith(" scores")]


@pytest.fixture(scope="module")
def scene(_one_redis: EmbeddedRedis) -> Iterator[Scene]:
    with Redis.from_url(_one_redis.url) as client, in_turned_time():
        yield Scene(client)


def every_key() -> Iterator[tuple[str, Damage]]:
    for key in KEYS:
        for kind in WHOLE:
            for seed in range(3):
                yield f"{key} {kind} {seed}", _of_key(key, kind, seed)


def _of_key(key: str, kind: str, seed: int) -> Damage:
    return lambda client: _no_matter(keys.damage(client, key, kind, random.Random(seed)))


def _no_matter(_: object) -> None:
    """Whether there was something to damage."""


def every_field(scene: Scene) -> Iterator[tuple[str, Damage]]:
    scene.put_back()
    for key, field in scene.fields():
        for kind in FIELD_KINDS:
            yield f"{key} {field!r} {kind}", _of_field(key, field, kind)


def _of_field(key: str, field: bytes, kind: str) -> Damage:
    return lambda client: damage_field(client, key, field, kind)


def every_number() -> Iterator[tuple[str, Damage]]:
    for field, place, name in numbers():
        for number in VALUES:
            yield f"{field!r} {name} {number}", _of_number(field, place, number)


def _of_number(field: bytes, place: int, number: float) -> Damage:
    def damage(client: Any) -> None:
        client.hset(LIMIT, field, with_number(client.hget(LIMIT, field), place, number))

    return damage


def everybody_asks(scene: Scene, instances: list[Instance]) -> None:
    for one in instances:
        one.share.want(5_000.0, 100.0, scene.now)
        one.ask(scene.server, scene.now)  # type: ignore[arg-type]


def judge(scene: Scene, name: str, damage: Damage) -> None:
    """Nobody is granted too much, and the limit serves again after a while."""
    instances = [*scene.put_back(), Instance("late", TERMS)]
    may = scene.power(instances) + scene.free()
    damage(scene.client)
    try:
        everybody_asks(scene, instances)
    except LeaseManagerError as error:
        mend_as_said(scene, str(error))
        everybody_asks(scene, instances)
    assert scene.power(instances) <= may * (1 + 1e-6), name
    serves_again(scene, instances)


def mend_as_said(scene: Scene, said: str) -> None:
    named = [key for key in KEYS if key in said]
    if "--old-format" in said:
        scene.server.manager.delete_old_format()
        return
    assert len(named) == 1, said
    assert "delete" in said
    scene.client.delete(named[0])


def serves_again(scene: Scene, instances: list[Instance]) -> None:
    """A new instance gets all, once the others are gone."""
    late, now = instances[-1], scene.now
    for _ in range(60):
        now += 0.4
        late.share.want(5_000.0, 0.0, now)
        if late.share.next_call(now) <= now:
            late.ask(scene.server, now)  # type: ignore[arg-type]
        if late.held(now) >= 0.99 * TERMS.capacity:
            return
    raise AssertionError(f"it holds {late.held(now)}")


def test_c8_a_damaged_key_never_grants_too_much_and_heals(scene: Scene) -> None:
    failed = failures(scene, every_key(), judge)
    assert not failed, report(failed)


def test_c8_a_damaged_field_never_grants_too_much_and_heals(scene: Scene) -> None:
    failed = failures(scene, every_field(scene), judge)
    assert not failed, report(failed)


def test_c8_a_damaged_number_never_grants_too_much_and_heals(scene: Scene) -> None:
    failed = failures(scene, every_number(), judge)
    assert not failed, report(failed)


def failures(
    scene: Scene,
    cases: Iterator[tuple[str, Damage]],
    check: Callable[[Scene, str, Damage], None],
) -> list[str]:
    failed = []
    for name, damage in cases:
        try:
            check(scene, name, damage)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
    return failed


def report(failed: list[str]) -> str:
    return f"{len(failed)} of the cases:\n" + "\n".join(failed[:40])
