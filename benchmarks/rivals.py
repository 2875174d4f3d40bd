"""Other queues with no-op jobs, each through its own API: `python rivals.py NAME URL JOBS`.

It runs in an environment of its own (`make bench` creates it), since their requirements for
redis-py and those of the tests exclude each other. It prints the seconds it took to enqueue and to
drain.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import time
from typing import Any

BODY = "x" * 100
THREADS = 8


async def nothing(context: Any, body: str) -> None:
    """Job of arq, which does nothing."""


def nothing_at_all(body: str) -> None:
    """Job of the others, which does nothing."""


def of_arq(url: str, jobs: int) -> tuple[float, float]:
    """Run 100 jobs at a time, polled every 10 ms."""

    async def both() -> tuple[float, float]:
        connections = importlib.import_module("arq.connections")
        worker_of = importlib.import_module("arq.worker")
        settings = connections.RedisSettings.from_dsn(url)
        pool = await connections.create_pool(settings)
        start = time.perf_counter()
        for _ in range(jobs):
            await pool.enqueue_job("nothing", BODY)
        enqueued = time.perf_counter()
        worker = worker_of.Worker(
            [nothing],
            redis_settings=settings,
            burst=True,
            max_jobs=100,
            poll_delay=0.01,
            keep_result=0,
            handle_signals=False,
        )
        await worker.async_run()
        await worker.close()
        return enqueued - start, time.perf_counter() - enqueued

    return asyncio.run(both())


def of_dramatiq(url: str, jobs: int) -> tuple[float, float]:
    """Run eight threads, as dramatiq does by default."""
    dramatiq = importlib.import_module("dramatiq")
    broker = importlib.import_module("dramatiq.brokers.redis").RedisBroker(url=url)
    dramatiq.set_broker(broker)
    actor = dramatiq.actor(nothing_at_all)
    start = time.perf_counter()
    for _ in range(jobs):
        actor.send(BODY)
    enqueued = time.perf_counter()
    worker = dramatiq.Worker(broker, worker_threads=THREADS, worker_timeout=100)
    worker.start()
    broker.join(actor.queue_name)
    worker.join()
    ended = time.perf_counter()
    worker.stop()
    return enqueued - start, ended - enqueued


def of_rq(url: str, jobs: int) -> tuple[float, float]:
    """Enqueue 100 in one call, and work on them without a fork for each."""
    rq = importlib.import_module("rq")
    redis = importlib.import_module("redis")
    connection = redis.Redis.from_url(url)
    queue = rq.Queue("bench", connection=connection)
    start = time.perf_counter()
    for _ in range(jobs // 100):
        data = [
            rq.Queue.prepare_data("rivals.nothing_at_all", [BODY], result_ttl=0) for _ in range(100)
        ]
        queue.enqueue_many(data)
    enqueued = time.perf_counter()
    rq.SimpleWorker([queue], connection=connection).work(burst=True, logging_level="ERROR")
    return enqueued - start, time.perf_counter() - enqueued


RIVALS = {"arq": of_arq, "dramatiq": of_dramatiq, "rq": of_rq}


def main() -> None:
    """Run the named queue."""
    logging.disable(logging.WARNING)
    name, url, jobs = sys.argv[1:]
    enqueue, drain = RIVALS[name](url, int(jobs))
    print(enqueue, drain)


if __name__ == "__main__":
    main()
