"""A Batcher that Prometheus can watch: serve its metrics, and look at them as a scrape would."""

import urllib.request

from dispatcher import Batcher, Operation, ProvisionedResource, Watcher
from dispatcher.metrics import instrument, serve


def write(batch: list[Operation]) -> None:
    """Writes to the datastore."""


batcher = Batcher(rate_limiter=ProvisionedResource(5_000))
instrument(batcher, name="orders")
with batcher, serve(port=0) as server:  # 0: any; a service names one for Prometheus to scrape
    print("scrape", server.url)
    watcher = Watcher(write, max_batch_size=100)
    batcher.enqueue_many([Operation(watcher, 10, n, batchable=True) for n in range(500)])
    batcher.drain()
    with urllib.request.urlopen(server.url) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(("dispatcher_operations_total", "dispatcher_spent_cost_total")):
                print(line)
print("done")
