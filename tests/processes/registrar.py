"""One process with a gate: registers as requested, and says so when it is acknowledged.

`python -m tests.processes.registrar sqlite PATH FIRST` registers entities FIRST, FIRST + 1, ...
in the SQLite file PATH until it is killed, and writes each number once it is acknowledged.

`python -m tests.processes.registrar many PATH FIRST` does it with `BULK` in one call.

`python -m tests.processes.registrar handle PATH MARK` is a consumer: it first asks for what came
out after MARK, then registers further entities, and writes the name of each that it has handled
and its new mark, until it is killed.

`python -m tests.processes.registrar portions URL COUNT` fills a family and sets it free, and says
so and waits when COUNT portions of it have come.

`python -m tests.processes.registrar redis URL LEVEL LEVELS COUNT` waits for a line, then offers
messages of all entities of its level, registers them below those of the level above, and
writes everything that is released to it as a line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any

from dispatcher.registration import (
    RedisEntityStore,
    Registration,
    RegistrationGate,
    Release,
    SqliteEntityStore,
)
from limiters._redis.script import Script

BULK = 40
CHILDREN = 200


def data_of(number: int) -> dict[str, object]:
    """Of various lengths, so that a write ends anywhere in a page."""
    return {"number": number, "text": "x" * (number * 37 % 3_000)}


def parent_of(number: int) -> str | None:
    return None if number % 10 == 0 else f"e{number - 1}"


def register_until_killed(path: str, first: int) -> None:
    gate = RegistrationGate(SqliteEntityStore(path))
    number = first
    while True:
        assert gate.register(f"e{number}", parent=parent_of(number), data=data_of(number))
        os.write(1, f"{number}\n".encode())
        number += 1


def register_many_until_killed(path: str, first: int) -> None:
    gate = RegistrationGate(SqliteEntityStore(path))
    while True:
        numbers = range(first, first + BULK)
        gate.register_many(Registration(f"e{one}", parent_of(one), data_of(one)) for one in numbers)
        first += BULK
        os.write(1, f"{first - 1}\n".encode())


def handle_until_killed(path: str, mark: int) -> None:
    gate = RegistrationGate(SqliteEntityStore(path))
    for emission in gate.emissions_since(mark):
        os.write(1, f"{emission.registration.entity} {emission.sequence}\n".encode())
    while True:
        first = gate.sequence
        released = gate.register_many(Registration(f"e{first + one}") for one in range(20))
        for release in released:
            os.write(1, f"{release.entity} {gate.sequence - 20}\n".encode())
        os.write(1, f"{released[-1].entity} {gate.sequence}\n".encode())


class StoppingStore(RedisEntityStore):
    """Waits for a line when it has run as many scripts as it may."""

    left: int | None = None

    def run(self, script: Script, arguments: list[str | bytes]) -> list[Any]:
        if self.left == 0:
            tell({"stopped": True})
            sys.stdin.readline()
        self.left = None if self.left is None else self.left - 1
        return super().run(script, arguments)


def fill(gate: RegistrationGate) -> None:
    for number in range(CHILDREN):
        gate.register(f"e{number}", parent="top" if number < 2 else f"e{number // 2}")
        for message in range(3):
            gate.offer(f"e{number}", f"{number}.{message}")


def set_free_until_killed(url: str, count: int) -> None:
    store = StoppingStore(url, name="plant", timeout=10)
    gate = RegistrationGate(store)
    fill(gate)
    store.left = count
    write(gate.register("top"))


def take_part(url: str, level: int, levels: int, count: int) -> None:
    gate = RegistrationGate(RedisEntityStore(url, name="plant", timeout=10))
    tell({"ready": level})
    sys.stdin.readline()
    chance = random.Random(level)
    tasks = [(kind, number) for number in range(count) for kind in "tmr"]
    chance.shuffle(tasks)
    for kind, number in tasks:
        # Messages go to any level: the gate that holds them need not be the one that receives the
        # registration.
        entity = f"{number}.{(level + number) % levels}"
        if kind == "r":
            parent = f"{number}.{level - 1}" if level else None
            released = gate.register(f"{number}.{level}", parent=parent)
        else:
            released = gate.offer(entity, f"{kind}{level}", metadata=kind == "m")
        write(released)
    write(gate.offer("0.0", f"last {level}"))
    tell({"counts": {name: list(amounts) for name, amounts in gate.counts.items()}})


def write(released: list[Release]) -> None:
    for one in released:
        tell({"entity": one.entity, "new": bool(one.registration), "messages": one.messages})


def tell(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    kind, place, *numbers = sys.argv[1:]
    one_number = {
        "sqlite": register_until_killed,
        "many": register_many_until_killed,
        "handle": handle_until_killed,
        "portions": set_free_until_killed,
    }
    if kind in one_number:
        one_number[kind](place, int(numbers[0]))
    else:
        take_part(place, *map(int, numbers))
