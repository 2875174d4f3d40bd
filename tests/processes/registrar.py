"""One process with a gate: registers as it is told, and says so when it is acknowledged.

`python -m tests.processes.registrar sqlite PATH FIRST` registers entities FIRST, FIRST + 1, ...
in the SQLite file PATH until it is killed, and writes each number once it is acknowledged.

`python -m tests.processes.registrar redis URL LEVEL LEVELS COUNT` waits for a line, then offers
messages of all entities of its level, registers them below those of the level above, and
writes everything that is released to it as a line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys

from dispatcher.registration import RedisEntityStore, RegistrationGate, Release, SqliteEntityStore


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


def take_part(url: str, level: int, levels: int, count: int) -> None:
    gate = RegistrationGate(RedisEntityStore(url, name="plant", timeout=10))
    tell({"ready": level})
    sys.stdin.readline()
    chance = random.Random(level)
    tasks = [(kind, number) for number in range(count) for kind in "tmr"]
    chance.shuffle(tasks)
    for kind, number in tasks:
        # Messages go to any level: who holds them is not who is told the registration.
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
    if kind == "sqlite":
        register_until_killed(place, int(numbers[0]))
    else:
        take_part(place, *map(int, numbers))
