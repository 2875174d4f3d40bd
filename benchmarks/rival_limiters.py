"""Another limiter of several dimensions: `python rival_limiters.py URL WORKERS SECONDS`.

token-throttle, through its own API, in an environment of its own, as `rivals.py`. It prints how
many operations a second its workers have reserved capacity for.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from typing import Any

USAGE = {"requests": 1, "tokens": 800}


async def of_token_throttle(url: str, workers: int, seconds: float) -> float:
    """Each worker reserves, does nothing, and says that it cost what was reserved."""
    throttle = importlib.import_module("token_throttle")
    client: Any = importlib.import_module("redis.asyncio").Redis.from_url(url)
    quotas = [throttle.Quota(metric=name, limit=10**9, per_seconds=60) for name in USAGE]
    limiter = throttle.RateLimiter(
        throttle.PerModelConfig(quotas=throttle.UsageQuotas(quotas)),
        # Its default may give up before a hundred have had their turns.
        backend=throttle.RedisBackendBuilder(
            client, key_prefix="bench", lock_blocking_timeout_seconds=60.0
        ),
    )
    done = 0
    end = time.perf_counter() + seconds

    async def work() -> None:
        nonlocal done
        while time.perf_counter() < end:
            async with limiter.reserve(USAGE, model="bench") as handle:
                handle.set_actual_usage(USAGE)
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(workers)))
    spent = time.perf_counter() - began
    await limiter.aclose()
    await client.aclose()
    return done / spent


if __name__ == "__main__":
    print(asyncio.run(of_token_throttle(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
