"""Request units, as Cosmos DB counts them: an import fills two containers in bulk, up to 100 items
a call, while a shop serves customers. The cost of an item depends on its size and on how much of it
is indexed, so it is learned from the charges of the store. Both share the limit, but a part is
reserved for the shop, which need not wait for the import."""

import math
import random
import threading
import time

from dispatcher import Batcher, Operation, Throttled, Watcher
from dispatcher.cli.datastore import Datastore, TooManyRequestsError
from limiters import MemoryLeaseManager, SharedResource

SHARED, RESERVED, BULK = 4_000, 500, 100
INDEXED = {"events": 2, "orders": 12}  # properties of each container's items
chance = random.Random(7)
store = Datastore(1.25 * (SHARED + RESERVED))  # room for clients without a Batcher
waited: list[float] = []


def insert(items: list[tuple[str, float]]) -> list[float]:
    """Stands for the store: returns the charge of each item, as x-ms-request-charge does; or raises
    429."""
    charges = [3 + 2 * kb + 0.4 * INDEXED[kind] + chance.uniform(-1, 1) for kind, kb in items]
    store.write(len(items), sum(charges))
    return charges


class Costs:
    """Estimates the cost of an item by container and size: first a high guess, then the mean of the
    charges. Too high wastes a little; too low is refused. Thread-safe."""

    def __init__(self, guess: float) -> None:
        self._guess = guess
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}
        self._lock = threading.Lock()
        self.told = self.charged = 0.0

    def of(self, kind: str, kb: float) -> float:
        charged, items = self._seen.get((kind, math.ceil(kb)), (self._guess, 1))
        return charged / items

    def learn(self, batch: list[Operation], charges: list[float]) -> None:
        """Add the charges of a batch to the mean."""
        with self._lock:
            for operation, charge in zip(batch, charges, strict=True):
                kind, kb = operation.payload
                charged, items = self._seen.get((kind, math.ceil(kb)), (0.0, 0))
                self._seen[kind, math.ceil(kb)] = charged + charge, items + 1
                self.told += operation.cost
                self.charged += charge


def write(batch: list[Operation]) -> None:
    """Send one call to the store."""
    try:
        costs.learn(batch, insert([operation.payload for operation in batch]))
    except TooManyRequestsError:
        raise Throttled(retry_after=0.2) from None


costs = Costs(guess=20)


def sell(limiter: SharedResource, ended: threading.Event) -> None:
    """Run the shop: twenty orders a second, one by one."""
    with Batcher(rate_limiter=limiter) as batcher:
        while not ended.wait(0.05):
            began = time.monotonic()
            order = Watcher(write)
            batcher.enqueue(Operation(order, costs.of("orders", 4), ("orders", 4)))
            order.wait()
            waited.append(time.monotonic() - began)


def main() -> None:
    """Import 2,000 items while the shop is open. Both could be processes: then with a
    RedisLeaseManager."""
    leases = MemoryLeaseManager()
    importer, shop = (
        SharedResource(
            shared_capacity=SHARED, reserved_capacity=reserved, factor=100, lease_manager=leases
        )
        for reserved in (0, RESERVED)
    )
    closing = threading.Event()
    selling = threading.Thread(target=sell, args=(shop, closing))
    selling.start()
    watcher = Watcher(write, max_batch_size=BULK)
    began = time.monotonic()
    with Batcher(rate_limiter=importer, max_buffer_size=BULK) as batcher:
        for number in range(2_000):
            item = ("events", 0.5) if number % 3 else ("orders", chance.uniform(1, 6))
            batcher.enqueue(Operation(watcher, costs.of(*item), item, batchable=True))
    seconds = time.monotonic() - began
    closing.set()
    selling.join()
    print(f"2,000 items imported in {seconds:.1f} s, {len(waited)} orders meanwhile")
    print(f"the shop waited at most {1000 * max(waited):.0f} ms")
    print(f"charged {costs.charged / costs.told:.2f} of the estimates; refused: {store.refused}")
    print("done")


if __name__ == "__main__":
    main()
