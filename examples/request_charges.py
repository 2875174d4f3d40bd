"""Request units with the header that says them, as Cosmos DB has it: `x-ms-request-charge` of each
answer is what it has taken.

The size of a document is known, its charge is not: so it is estimated high, and settled by the
header, whatever the status. It counts when a request has been carried out, so the limit counts from
the end of calls. A refusal (429) says in `x-ms-retry-after-ms` when to come again.

The container has fewer units than this program is allowed, as if another one used the rest: so some
requests are refused.
"""

import json
import random
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dispatcher import Batcher, Operation, ProvisionedResource, Throttled, Watcher
from examples.metered.apis import RequestUnitsApi
from limiters import Limits, Rate

UNITS, DOCUMENTS = 2_000, 500
chance = random.Random(7)


class Container:
    """A client that creates documents, and settles each by its header. Thread-safe."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.estimated = self.charged = 0.0
        self._lock = threading.Lock()

    def create(self, batch: list[Operation]) -> None:
        """The callback: one document."""
        [operation] = batch
        sent = json.dumps(operation.payload).encode()
        request = urllib.request.Request(f"{self.url}/dbs/shop/colls/orders/docs", sent)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                self._settle(operation, answer.headers["x-ms-request-charge"])
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 429:
                    raise
                self._settle(operation, error.headers["x-ms-request-charge"])
                wait = float(error.headers["x-ms-retry-after-ms"]) / 1000
                raise Throttled(retry_after=wait) from None

    def _settle(self, operation: Operation, header: str) -> None:
        charge = float(header)
        operation.settle(charge)
        with self._lock:
            self.estimated += operation.cost
            self.charged += charge


def main() -> None:
    """Create documents of 1 to 8 KB."""
    api = RequestUnitsApi(0.8 * UNITS)
    with api.served() as url:
        container = Container(url)
        watcher = Watcher(container.create)
        limiter = ProvisionedResource(Limits(units=Rate(UNITS, counts="end")))
        with Batcher(rate_limiter=limiter, max_concurrent_batches=20) as batcher:
            for number in range(DOCUMENTS):
                kb = chance.uniform(1, 8)
                batcher.enqueue(Operation(watcher, 20 + 4 * kb, {"id": str(number), "kb": kb}))
    ratio = container.charged / container.estimated
    print(f"{container.charged:,.0f} request units charged, {ratio:.2f} of the estimates")
    print("the server has a fifth less than the program uses, on purpose: some calls are refused")
    print(f"the API has refused {api.meter.refused:.0f} calls")
    assert api.meter.refused
    assert abs(container.charged - api.meter.charged) < 0.01
    print("done")


if __name__ == "__main__":
    main()
