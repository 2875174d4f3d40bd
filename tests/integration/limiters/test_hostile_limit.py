"""After any damage to a limit's data in Redis, a call repairs it or names what is wrong; no
instance is granted too much, nothing crashes or hangs, and the command that an error names repairs
it (law C8)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from redis import Redis

from limiters import LeaseManagerError
from limiters.embedded import EmbeddedRedis
from limiters.leases._messages import Reply, Request
from tests.hostile import damages
from tests.hostile.damages import Damage, failures, report
from tests.hostile.limit import KEYS, LIMIT, TERMS, Scene, ScriptServer, in_turned_time
from tests.story import Instance


@pytest.fixture(scope="module")
def scene(_one_redis: EmbeddedRedis) -> Iterator[Scene]:
    with Redis.from_url(_one_redis.url) as client, in_turned_time():
        yield Scene(client)


def all_instances_ask(scene: Scene, instances: list[Instance]) -> None:
    for one in instances:
        one.share.want(5_000.0, 100.0, scene.now)
        one.ask(scene.server, scene.now)  # type: ignore[arg-type]


def judge(scene: Scene, name: str, damage: Damage) -> None:
    """Check that no instance is granted too much, and that the limit serves again after a while."""
    instances = [*scene.put_back(), Instance("late", TERMS)]
    may = scene.power(instances) + scene.free()
    damage(scene.client)
    try:
        all_instances_ask(scene, instances)
    except LeaseManagerError as error:
        repair_as_advised(scene, str(error))
        all_instances_ask(scene, instances)
    assert scene.power(instances) <= may * (1 + 1e-6), name
    serves_again(scene, instances)


def repair_as_advised(scene: Scene, advice: str) -> None:
    named = [key for key in KEYS if key in advice]
    if "--old-format" in advice:
        scene.server.manager.delete_old_format()
        return
    assert len(named) == 1, advice
    assert "delete" in advice
    scene.client.delete(named[0])


def serves_again(scene: Scene, instances: list[Instance]) -> None:
    """Check that a new instance gets everything once the others are gone."""
    late, now = instances[-1], scene.now
    for _ in range(60):
        now += 0.4
        late.share.want(5_000.0, 0.0, now)
        if late.share.next_call(now) <= now:
            late.ask(scene.server, now)  # type: ignore[arg-type]
        if late.held(now) >= 0.99 * TERMS.capacity:
            assert scene.strays() == []
            return
    raise AssertionError(f"it holds {late.held(now)}")


@pytest.mark.parametrize("part", damages.PART)
def test_c8_a_damaged_key_never_grants_too_much_and_heals(scene: Scene, part: int) -> None:
    failed = failures(scene, damages.to_keys(), part, judge)
    assert not failed, report(failed)


@pytest.mark.parametrize("part", damages.PART)
def test_c8_a_damaged_field_never_grants_too_much_and_heals(scene: Scene, part: int) -> None:
    failed = failures(scene, damages.to_fields(scene), part, judge)
    assert not failed, report(failed)


@pytest.mark.parametrize("part", damages.PART)
def test_c8_a_damaged_number_never_grants_too_much_and_heals(scene: Scene, part: int) -> None:
    failed = failures(scene, damages.to_numbers(), part, judge)
    assert not failed, report(failed)


class MidwayServer(ScriptServer):
    """A server on which something happens before one of its scripts."""

    def __init__(self, client: Redis, place: int, happens: Damage) -> None:
        super().__init__(client)
        self._before = {place: happens}
        self._scripts = 0

    def sync(self, request: Request, now: float) -> Reply:
        self._scripts += 1
        self._before.pop(self._scripts, lambda client: None)(self.client)
        reply: Reply = super().sync(request, now)
        return reply


@pytest.mark.parametrize("part", damages.PART)
@pytest.mark.parametrize(
    ("place", "is_sent_back"),
    [(2, True), (4, False)],
    ids=["between a challenge and its answer", "between two instances"],
)
def test_c8_damage_in_the_middle_of_a_call_never_grants_too_much_and_heals(
    scene: Scene, place: int, is_sent_back: bool, part: int
) -> None:
    def judge_midway(scene: Scene, name: str, damage: Damage) -> None:
        instances = [*scene.put_back(), Instance("late", TERMS)]
        may = scene.power(instances) + scene.free()
        if is_sent_back:
            scene.client.hdel(LIMIT, "cause")
        server = MidwayServer(scene.client, place, damage)
        for one in instances:
            one.share.want(5_000.0, 100.0, scene.now)
            try:
                one.ask(server, scene.now)  # type: ignore[arg-type]
            except LeaseManagerError as error:
                repair_as_advised(scene, str(error))
                one.ask(server, scene.now)  # type: ignore[arg-type]
        assert scene.power(instances) <= may * (1 + 1e-6), name
        serves_again(scene, instances)

    failed = failures(scene, damages.to_keys(1), part, judge_midway)
    assert not failed, report(failed)


@pytest.mark.parametrize("part", damages.PART)
def test_c8_a_number_that_fits_its_checksum_crashes_nothing(scene: Scene, part: int) -> None:
    failed = failures(scene, damages.on_purpose(), part, call_everything)
    assert not failed, report(failed)


def call_everything(scene: Scene, name: str, damage: Damage) -> None:
    instances = scene.put_back()
    damage(scene.client)
    manager = scene.server.manager
    with contextlib.suppress(LeaseManagerError):
        view = manager.look()
        assert view is None or 1 <= view.partitions <= 10_000
    for one in instances:
        with contextlib.suppress(LeaseManagerError, AssertionError):
            one.ask(scene.server, scene.now)  # type: ignore[arg-type]
    manager.evict("b")
    assert manager.delete()
    assert manager.look() is None
    assert manager.set_terms(capacity=5.0, factor=1.0, period=1, lease_time=2)
    assert manager.look() is not None
