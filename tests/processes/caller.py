"""One process of a cluster that calls an API: Batchers on one limit of several dimensions.

`python -m tests.processes.caller '{"url": ..., "port": ..., ...}'`. Each batch is one call over
HTTP, which says when it began by the library's ledger. It starts and ends as `instance` does.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
from itertools import islice

from dispatcher import Batcher, BatcherStoppedError, Operation, Throttled, Watcher
from limiters import RedisLeaseManager, SharedResource
from tests.processes.calls import Prompt, as_limits, drawn
from tests.processes.instance import run
from tests.processes.plan import CallerPlan
from tests.servers.counting_api import HOST, PATIENCE
from tests.starts import began

SOME = 50
"""Operations that are enqueued together; four times as many wait."""

_connections = threading.local()


class Caller:
    """A Batcher and its limiter, with a backlog that does not end."""

    def __init__(self, plan: CallerPlan, name: str) -> None:
        self.plan = plan
        self.name = name
        limits = as_limits(plan.limits)
        self.batcher = Batcher(
            rate_limiter=SharedResource(
                shared_capacity=limits,
                max_interval=plan.max_interval,
                lease_manager=RedisLeaseManager(
                    plan.url, name=plan.limit, lease_time=plan.lease_time
                ),
            ),
            max_buffer_size=4 * SOME,
            max_operation_time=min(
                (one.max_operation_time for one in limits.bounds if one.max_operation_time),
                default=60,
            ),
        )
        # What each call costs, whatever is in it.
        each = {name: 1 for name in limits.dimensions if name != "tokens"}
        self.watcher = Watcher(self.call, max_batch_size=1, batch_cost=each)
        self.feeder = threading.Thread(target=self.feed, daemon=True)

    def call(self, batch: list[Operation]) -> None:
        prompt = batch[0].payload
        costs = dict.fromkeys(self.plan.limits, 1) | {"tokens": prompt.tokens}
        body = {"who": self.name, "began": began(), "seconds": prompt.seconds, "costs": costs}
        connection = getattr(_connections, "here", None)
        if connection is None:
            connection = http.client.HTTPConnection(HOST, self.plan.port, timeout=PATIENCE)
            _connections.here = connection
        connection.request("POST", "/calls", json.dumps(body))
        with connection.getresponse() as answer:
            answer.read()
            if answer.status == http.HTTPStatus.TOO_MANY_REQUESTS:
                raise Throttled(retry_after=int(answer.headers["retry-after-ms"]) / 1000)
            assert answer.status == http.HTTPStatus.OK, answer.status
        if self.plan.estimated:
            batch[0].settle({"tokens": prompt.tokens})

    def feed(self) -> None:
        plan = self.plan
        prompts = drawn(self.name, plan.tokens, plan.shortest, plan.longest)
        try:
            while True:
                self.batcher.enqueue_many([self.operation(one) for one in islice(prompts, SOME)])
        except BatcherStoppedError:
            return

    def operation(self, prompt: Prompt) -> Operation:
        tokens = self.plan.estimated or prompt.tokens
        cost = {"tokens": tokens} if "tokens" in self.plan.limits else 0
        return Operation(self.watcher, cost, prompt)

    def start(self) -> None:
        self.batcher.start()
        self.feeder.start()

    def stop(self) -> None:
        self.batcher.stop(drain=False)


def main() -> None:
    # It is cut off from Redis, and refused by the API, on purpose.
    logging.disable(logging.WARNING)
    plan = CallerPlan.from_argument()
    run([Caller(plan, name) for name in plan.names])


if __name__ == "__main__":
    main()
