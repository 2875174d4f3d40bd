"""Real processes: killed while they write, and several that are one gate."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from redis import Redis

from dispatcher.registration import (
    MemoryEntityStore,
    RedisEntityStore,
    RegistrationGate,
    SqliteEntityStore,
)
from limiters.embedded import EmbeddedRedis
from tests.processes import ROOT
from tests.processes.registrar import BULK, data_of, fill, parent_of

KILLS = 12


def started(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.processes.registrar", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )


def killed_while_writing(
    path: Path, first: int, after: int, delay: float, *, kind: str = "sqlite"
) -> int:
    """Kills a process in the midst of its writes, as soon as it has acknowledged `after`, or
    `delay` after that; the last number that it acknowledged."""
    process = started(kind, path, first)
    assert process.stdout is not None
    last = first - 1
    kill = threading.Timer(delay, process.send_signal, [signal.SIGKILL])
    for line in process.stdout:
        last = int(line)
        if last == first + after:
            kill.start()
    process.wait(timeout=30)
    kill.cancel()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()
    assert process.returncode == -signal.SIGKILL
    return last


def test_r6_sigkill_at_any_moment_of_a_write_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "entities.db"
    chance = random.Random(6)
    first = 0
    for _ in range(KILLS):
        after, delay = chance.randrange(40), chance.random() * 0.004
        last = killed_while_writing(path, first, after, delay)
        assert last >= first + after
        with RegistrationGate(SqliteEntityStore(path)) as gate:
            assert gate.counts["corrupt"].registrations == 0
            for number in range(last + 1):
                entity = f"e{number}"
                assert gate.offer(entity, number)[0].messages == (number,)
                assert not gate.register(entity, parent=parent_of(number), data=data_of(number)), (
                    "what is known is not emitted again"
                )
            # The one that was being written is there as a whole, or not at all.
            released = gate.register(
                f"e{last + 1}", parent=parent_of(last + 1), data=data_of(last + 1)
            )
            assert len(released) <= 1
        first = last + 2
        with RegistrationGate(SqliteEntityStore(path)) as gate:
            # So that the next process finds the parent of its first entity.
            gate.register(f"e{first - 1}", parent=parent_of(first - 1), data=data_of(first - 1))


def test_r6_sigkill_in_the_midst_of_many_registrations_leaves_all_of_them_or_none(
    tmp_path: Path,
) -> None:
    path = tmp_path / "entities.db"
    chance = random.Random(7)
    first = 0
    for _ in range(KILLS // 3):
        delay = chance.random() * 0.02
        last = killed_while_writing(path, first, BULK - 1, delay, kind="many")
        with RegistrationGate(SqliteEntityStore(path)) as gate:
            for number in range(last + 1):
                assert gate.offer(f"e{number}", number), "it was acknowledged"
            there = [bool(gate.offer(f"e{last + 1 + one}", 1)) for one in range(BULK)]
            assert len(set(there)) == 1, "those that were being written are there, or none is"
        first = last + 1 + (BULK if there[0] else 0)


def test_r6_a_consumer_that_is_killed_asks_again_and_has_handled_everything(
    tmp_path: Path,
) -> None:
    path = tmp_path / "entities.db"
    chance = random.Random(8)
    handled: list[str] = []
    mark = 0
    for _ in range(KILLS // 3):
        process = started("handle", path, mark)
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 90)):
            entity, number = process.stdout.readline().split()
            handled.append(entity)
            mark = int(number)
        process.kill()
        process.communicate(timeout=30)  # what it has still written is not handled
    with RegistrationGate(SqliteEntityStore(path)) as gate:
        everything = {one.registration.entity for one in gate.emissions_since(0)}
        left = {one.registration.entity for one in gate.emissions_since(mark)}
    assert everything > left
    assert {*handled} | left == everything


def test_r9_a_family_whose_process_is_killed_between_two_portions_comes_out_of_another() -> None:
    alone = RegistrationGate(MemoryEntityStore())
    fill(alone)
    with EmbeddedRedis() as server, Redis.from_url(server.url) as client:
        process = started("portions", server.url, 4)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"stopped": True}
        process.kill()
        process.communicate(timeout=30)
        (key,) = client.keys("*:unfinished")
        for agenda in client.zrange(key, 0, -1):
            client.zadd(key, {agenda: 1})  # as if it were long ago
        other = RegistrationGate(RedisEntityStore(server.url, name="plant", timeout=10))
        assert other.register("another")[1:] == alone.register("top")
        assert other.pending == 0


def test_r9_processes_that_are_one_gate_release_everything_once_and_in_order() -> None:
    levels, count = 4, 40
    with EmbeddedRedis() as server:
        processes = [started("redis", server.url, level, levels, count) for level in range(levels)]
        told: list[dict[str, Any]] = []
        for process in processes:
            assert process.stdout is not None
            assert "ready" in json.loads(process.stdout.readline())
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 0
            told += map(json.loads, output.splitlines())
    releases = [one for one in told if "entity" in one]
    new = Counter(one["entity"] for one in releases if one["new"])
    assert new == {f"{number}.{level}": 1 for number in range(count) for level in range(levels)}
    messages = Counter(
        (one["entity"], message)
        for one in releases
        for message in one["messages"]
        if not message.startswith("last")
    )
    expected = {
        (f"{number}.{(level + number) % levels}", f"{kind}{level}")
        for number in range(count)
        for level in range(levels)
        for kind in "tm"
    }
    assert messages == dict.fromkeys(expected, 1)
    assert sum(len(one["messages"]) for one in releases) == len(expected) + levels
    # Within what one call released, parents come before children, and metadata first.
    for one in releases:
        kinds = [message[0] for message in one["messages"]]
        assert kinds == sorted(kinds, key="mtl".index)
    counts = [one["counts"] for one in told if "counts" in one]
    for kind in range(3):
        held = sum(one["held"][kind] for one in counts)
        assert held == sum(one["released"][kind] for one in counts)
    assert all(sum(one["dropped"]) == sum(one["displaced"]) == 0 for one in counts)
