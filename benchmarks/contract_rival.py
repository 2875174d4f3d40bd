"""A limit of two dimensions, 100 workers on it, against token-throttle on the same Redis.

Each worker reserves, does nothing, and goes on; there is always enough. token-throttle asks Redis
for each operation. It needs Python 3.12: `make bench` installs it where there is one.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.rival_limiters import USAGE
from limiters import Limits, Rate, RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis

RIVALS = Path(os.environ.get("RIVALS_PYTHON", ".venv-rivals/bin/python"))
WORKERS, SECONDS, ROUNDS = 100, 2.0, 3
PLENTY = 1e9


def run() -> Iterator[Figure]:
    """The figures, in turns: how fast the machine is changes from one second to the next."""
    name = "operations a second of two dimensions, 100 workers"
    if not _is_installed():
        yield Figure(f"{name}: token-throttle is not there (make bench; it needs 3.12)", 0, "")
        return
    with EmbeddedRedis() as server:
        manager = RedisLeaseManager(server.url, name="bench")
        limits = Limits(**{name: Rate(PLENTY) for name in USAGE})
        with SharedResource(shared_capacity=limits, lease_manager=manager) as limiter:
            asyncio.run(_reserved(limiter))  # from idle
            rounds = [
                (asyncio.run(_reserved(limiter)), _of_token_throttle(server.url))
                for _ in range(ROUNDS)
            ]
    ours, others = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    yield Figure(
        f"{name}, against token-throttle",
        statistics.median(one / other for one, other in rounds),
        "times",
        at_least=20,
        note=f"{ours:,.0f} against {others:,.1f}",
    )


async def _reserved(limiter: SharedResource) -> float:
    done = 0
    end = time.perf_counter() + SECONDS

    async def work() -> None:
        nonlocal done
        while time.perf_counter() < end:
            async with limiter.reserve(USAGE):
                done += 1
            await asyncio.sleep(0)  # the others' turn, as after any call

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(WORKERS)))
    return done / (time.perf_counter() - began)


def _is_installed() -> bool:
    command = [str(RIVALS.absolute()), "-c", "import token_throttle"]
    return (
        RIVALS.exists() and not subprocess.run(command, capture_output=True, check=False).returncode
    )


def _of_token_throttle(url: str) -> float:
    done = subprocess.run(
        [str(RIVALS.absolute()), "rival_limiters.py", url, str(WORKERS), str(SECONDS)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return float(done.stdout)
