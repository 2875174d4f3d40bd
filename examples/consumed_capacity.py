"""Batches of 25 items with what they have consumed, as DynamoDB's BatchWriteItem reports it.

An item costs a write unit for each KB begun; here all are estimated at the largest, 4 units. The
answer has ConsumedCapacity for the whole batch, which is settled, and UnprocessedItems, which were
not charged: they alone are sent again. Units count when a request has been carried out, so the
limit counts from the end of calls.

The table has fewer units than this program is allowed, as if another one used the rest: so items
come back, and requests are refused.
"""

import json
import random
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from dispatcher import (
    Batcher,
    Operation,
    PartialFailure,
    ProvisionedResource,
    Throttled,
    Watcher,
    settle,
)
from examples.metered.apis import TableApi
from limiters import Limits, Rate

UNITS, ITEMS, LARGEST = 500, 600, 4
chance = random.Random(7)


class Table:
    """A client that writes items, and sends again what was not processed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.written: list[int] = []
        self.unprocessed = self.refused = 0

    def write(self, batch: list[Operation]) -> None:
        """The callback: up to 25 items."""
        puts = [{"PutRequest": {"Item": one.payload}} for one in batch]
        answer = self._post({"RequestItems": {"orders": puts}, "ReturnConsumedCapacity": "TOTAL"})
        settle(batch, sum(one["CapacityUnits"] for one in answer["ConsumedCapacity"]))
        left = {
            put["PutRequest"]["Item"]["id"] for put in answer["UnprocessedItems"].get("orders", ())
        }
        self.unprocessed += len(left)
        self.written += [one.payload["id"] for one in batch if one.payload["id"] not in left]
        if left:
            again = [one for one in batch if one.payload["id"] in left]
            raise PartialFailure(again, Throttled(retry_after=0.1))

    def _post(self, sent: dict[str, Any]) -> dict[str, Any]:
        headers = {"X-Amz-Target": "DynamoDB_20120810.BatchWriteItem"}
        request = urllib.request.Request(self.url, json.dumps(sent).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                if "ProvisionedThroughputExceeded" not in json.load(error)["__type"]:
                    raise
                self.refused += 1
                raise Throttled(retry_after=0.1, charged=False) from None


def main() -> None:
    """Write items of up to 4 KB."""
    api = TableApi(0.8 * UNITS)
    with api.served() as url:
        table = Table(url)
        watcher = Watcher(table.write, max_batch_size=25)
        limiter = ProvisionedResource(Limits(units=Rate(UNITS, counts="end")))
        with Batcher(rate_limiter=limiter, max_concurrent_batches=4) as batcher:
            for number in range(ITEMS):
                item = {"id": number, "bytes": chance.randrange(200, LARGEST * 1024)}
                batcher.enqueue(Operation(watcher, LARGEST, item, batchable=True))
    print(f"{len(table.written)} items written for {api.meter.charged:.0f} units")
    print("the server has a fifth less than the program uses, on purpose: some calls are refused")
    print(f"{table.unprocessed} came back unprocessed, and were sent again")
    print(f"{table.refused} requests were refused as a whole")
    assert table.unprocessed + table.refused
    assert sorted(table.written) == list(range(ITEMS))
    print("done")


if __name__ == "__main__":
    main()
