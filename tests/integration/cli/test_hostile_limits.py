"""The commands about limits work when one is damaged: they show the others, and say which one it
is; the repair works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from limiters._redis.runner import ScriptRunner
from limiters.embedded import EmbeddedRedis
from tests.commands import Run, Said
from tests.hostile import damages
from tests.hostile.damages import Damage, failures, report
from tests.hostile.keys import ANOTHER_TYPE
from tests.hostile.limit import KEYS, NAME, OTHER, PEOPLE, REGISTRY, Scene, in_turned_time

SHOWING = (
    ("limit", "show", NAME),
    ("limit", "show", NAME, "--json"),
    ("leases", NAME),
    ("leases", NAME, "--json"),
    ("leases", NAME, "--evict", "b", "--yes"),
)


@pytest.fixture(scope="module")
def scene(_one_redis: EmbeddedRedis) -> Iterator[Scene]:
    with Redis.from_url(_one_redis.url) as client, in_turned_time():
        yield Scene(client)


@pytest.fixture(autouse=True)
def _url(_one_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHER_REDIS", _one_redis.url)


def is_of_all(name: str) -> bool:
    """The registry is of all limits: while something else has its key, none is served."""
    return name.startswith(f"{REGISTRY} {ANOTHER_TYPE}")


def shown(said: Said) -> None:
    """It showed something, or printed in one line what is wrong."""
    assert "Traceback" not in said.err
    assert said.code in (0, 1, 3, 4), said
    names_it = any(
        words in said.err for words in (NAME, "dispatcher:limits:", "has gone meanwhile")
    )
    assert said.code == 0 or names_it, said


@pytest.mark.parametrize("part", damages.PART)
def test_each_command_says_what_is_damaged_and_the_remedy_works(
    scene: Scene, run: Run, part: int
) -> None:
    def check(_: Scene, name: str, damage: Damage) -> None:
        scene.put_back()
        damage(scene.client)
        for command in SHOWING:
            shown(run(*command))
        both = run("top", NAME, OTHER, "--once")
        shown(both)
        said = both.out + both.err
        if is_of_all(name):
            assert f"something else under {REGISTRY}" in said, said
        else:
            assert f"limit {OTHER}: 70" in said or "there is no limit" in said, said
        remedy(run)

    def remedy(run: Run) -> None:
        was_there = bool(scene.client.exists(KEYS[0]))
        deleted = run("limit", "delete", NAME, "--yes")
        if any(key in deleted.err for key in KEYS) or "--old-format" in deleted.err:
            return  # something else keeps the place: it says which
        assert deleted.code == (0 if was_there else 3), deleted
        new = ("--shared-capacity", "50", "--lease-time", "3")
        assert run("limit", "set", NAME, *new).code == 0
        assert run("limit", "show", NAME, "--json").json["shared_capacity"] == 50

    failed = failures(scene, (*damages.to_keys(1), *damages.to_fields(scene)), part, check)
    assert not failed, report(failed)


OF_SEVERAL_SCRIPTS = (
    ("leases", NAME, "--evict", "b"),
    ("top", NAME, OTHER, "--once"),
    ("limit", "set", NAME, "--shared-capacity", "50", "--lease-time", "3"),
    ("limit", "delete", NAME, "--yes"),
)


@pytest.mark.parametrize("part", damages.PART)
@pytest.mark.parametrize("place", [2, 3])
def test_damage_in_the_middle_of_a_command(
    scene: Scene, run: Run, monkeypatch: pytest.MonkeyPatch, place: int, part: int
) -> None:
    """Between two scripts of it."""
    scripts, happens = 0, list[Damage]()
    run_script = ScriptRunner.run

    def watched(runner: ScriptRunner, *arguments: Any) -> Any:
        nonlocal scripts
        scripts += 1
        if scripts == place:
            happens.pop()(scene.client)
        return run_script(runner, *arguments)

    monkeypatch.setattr(ScriptRunner, "run", watched)

    def check(_: Scene, name: str, damage: Damage) -> None:
        nonlocal scripts
        for command in OF_SEVERAL_SCRIPTS:
            scene.put_back()
            scripts, happens[:] = 0, [damage]
            shown(run(*command))

    failed = failures(scene, damages.to_keys(1), part, check)
    assert not failed, report(failed)


def test_a_damaged_limit_can_be_set_again(scene: Scene, run: Run) -> None:
    scene.put_back()
    scene.client.hset(KEYS[0], "header", b"damaged")
    said = run("limit", "set", NAME, "--shared-capacity", "50")
    assert said.code == 0, said
    assert "could not be read" in said.out
    assert run("limit", "show", NAME, "--json").json["shared_capacity"] == 50


def test_a_limit_of_which_a_record_is_damaged_is_changed_and_starts_over(
    scene: Scene, run: Run
) -> None:
    scene.put_back()
    scene.client.hset(KEYS[0], "=a", b"damaged")
    said = run("limit", "set", NAME, "--shared-capacity", "50")
    assert said.code == 0, said
    assert f"limit {NAME} was changed" in said.out
    shown = run("limit", "show", NAME, "--json").json
    assert (shown["shared_capacity"], shown["lease_time"]) == (50, 2), "the others are as they were"
    assert shown["uncertain"] > 0
    assert "did not agree" in shown["cause"]
    scene.client.hset(KEYS[0], "=a", b"damaged again")  # a change of the lease time is one as well
    assert run("limit", "set", NAME, "--lease-time", "4").code == 0


def test_top_shows_the_other_limits(scene: Scene, run: Run) -> None:
    scene.put_back()
    scene.client.hset(KEYS[0], "header", b"damaged")
    said = run("top", NAME, OTHER, "--once")
    assert f"limit {OTHER}: 70" in said.out
    assert f"limit {NAME}" in said.out
    assert "is damaged" in said.out
    assert said.code == 1


def test_top_as_json_has_the_other_limits(scene: Scene, run: Run) -> None:
    scene.put_back()
    scene.client.hset(KEYS[0], "header", b"damaged")
    limits = run("top", NAME, OTHER, "--once", "--json").json["limits"]
    assert limits[OTHER]["capacity_in_force"] == 70
    assert "is damaged" in limits[NAME]["error"]


@pytest.mark.parametrize("part", damages.PART)
def test_the_exporter_shows_the_other_limits(scene: Scene, run: Run, part: int) -> None:
    def check(_: Scene, name: str, damage: Damage) -> None:
        scene.put_back()
        damage(scene.client)
        said = run("exporter", "--once")
        assert said.code == 0, said
        assert "dispatcher_redis_up 1.0" in said.out
        if is_of_all(name):
            assert f'dispatcher_unreadable{{what="limit {OTHER}"}} 1.0' in said.out
        else:
            assert f'dispatcher_cluster_capacity{{kind="shared",limit="{OTHER}"}} 70.0' in said.out

    failed = failures(scene, (*damages.to_keys(1), *damages.to_fields(scene)), part, check)
    assert not failed, report(failed)


def test_the_exporter_names_the_damaged_limit(
    scene: Scene, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    scene.put_back()
    scene.client.hset(KEYS[0], "header", b"damaged")
    said = run("exporter", "--once")
    assert f'dispatcher_unreadable{{what="limit {NAME}"}} 1.0' in said.out
    assert f"limit {NAME} cannot be read" in caplog.text


def test_nothing_that_is_stored_does_something_to_a_terminal(scene: Scene, run: Run) -> None:
    scene.put_back()
    scene.client.hset(PEOPLE, "=a", b"\x1b[2J\xff\x07\xc2\x9b2J")
    for command in (*SHOWING, ("top", NAME, "--once"), ("exporter", "--once")):
        said = run(*command)
        assert not {"\x1b", "\x07", "\x9b", "\udcff"} & {*said.out, *said.err}, command
