"""The smallest useful program: records go in one by one, and come out in batches, never faster
than the datastore allows."""

from dispatcher import Batcher, Operation, ProvisionedResource, Watcher


def write(batch: list[Operation]) -> None:
    """Stands for one request to a datastore that takes up to 500 records a call."""
    print(f"writing {len(batch)} records, cost {sum(one.cost for one in batch):g}")


def main() -> None:
    """Sends 2,000 records that cost 10 each to a datastore that allows 20,000 a second."""
    watcher = Watcher(write, max_batch_size=500)
    with Batcher(rate_limiter=ProvisionedResource(20_000)) as batcher:
        for number in range(2_000):
            batcher.enqueue(Operation(watcher, 10, {"id": number}, batchable=True))
        watcher.wait()
    print("done:", batcher.totals.done)


if __name__ == "__main__":
    main()
