"""Two processes share an LLM's API: 60 requests and 12,000 tokens a minute, and 6 calls at a time.

Here a minute is two seconds. The limit is written as a text, as a configuration would have it, and
an operator raises its tokens while the processes run. At the end the verifier judges each
dimension.

REDIS_URL names the Redis; without it, one is started for as long as this runs.
"""

import json
import os
import subprocess
import sys
import time

from dispatcher import Batcher, Operation, Watcher
from limiters import Limits, RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from limiters.verifier import SpentCall, verify_limits

LIMITS = "requests=60/2s,tokens=12000/2s,calls=6slots:max_operation_time=5s"
RAISED = {"tokens": 18_000}
PROMPTS, TOKENS = 60, (120, 600)


def work(url: str) -> None:
    """Run one process: call the API for each batch, and write when that was."""

    def call(batch: list[Operation]) -> None:
        began, tokens = time.monotonic(), sum(operation.payload for operation in batch)
        time.sleep(0.1)
        spent = {"requests": 1, "tokens": tokens, "calls": 1}
        sys.stdout.write(json.dumps([began, os.getpid(), spent, time.monotonic()]) + "\n")

    leases = RedisLeaseManager(url, name="llm", lease_time=1)
    limiter = SharedResource(
        shared_capacity=Limits.parse(LIMITS), lease_manager=leases, max_interval=0.25
    )
    watcher = Watcher(call, max_batch_size=2, batch_cost={"requests": 1, "calls": 1})
    with Batcher(rate_limiter=limiter, max_operation_time=5) as batcher:
        for number in range(PROMPTS):
            tokens = TOKENS[number % 2]
            batcher.enqueue(Operation(watcher, {"tokens": tokens}, tokens, batchable=True))


def share(url: str) -> None:
    """Start two processes, raise their limit, and judge what they wrote."""
    command = [sys.executable, __file__, url]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    manager = RedisLeaseManager(url, name="llm", lease_time=1)
    while manager.look() is None:
        time.sleep(0.1)
    # On the command line: dispatcher limit set llm --shared-capacity tokens=18000
    manager.set_terms(capacity=RAISED)
    view = manager.look()
    assert view is not None
    for bound in view.bounds:
        print(f"{bound.dimension}: {bound.capacity:,.0f}")
    manager.close()
    written = [line for process in processes for line in process.communicate()[0].splitlines()]
    log = [
        SpentCall(began, str(process), cost, end)
        for began, process, cost, end in map(json.loads, written)
    ]
    allowed = Limits.parse(LIMITS).with_capacity("capacity", RAISED)
    print(f"{len(log)} calls of 2 processes:")
    print(verify_limits(log, allowed, late=0.3))


def main() -> None:
    """With a URL, be one of the processes; without, start them."""
    if len(sys.argv) > 1:
        work(sys.argv[1])
    elif url := os.environ.get("REDIS_URL"):
        share(url)
    else:
        with EmbeddedRedis() as server:
            share(server.url)


if __name__ == "__main__":
    main()
