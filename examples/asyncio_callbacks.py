"""A thousand concurrent requests on one event loop, from an asyncio program: with a bound on the
requests in flight, and as many a second as the API allows."""

import asyncio
import time

from dispatcher import Batcher, Operation, ProvisionedResource, Watcher


async def call_api(batch: list[Operation]) -> None:
    """Stands for one request of an async client; it takes a while."""
    await asyncio.sleep(0.2)


async def main() -> None:
    """Sends 1,500 requests to an API that allows 1,000 a second."""
    watcher = Watcher(call_api)
    started = time.monotonic()
    async with Batcher(
        rate_limiter=ProvisionedResource(1_000), max_concurrent_batches=500, max_buffer_size=200
    ) as batcher:
        for number in range(1_500):
            await batcher.enqueue_async(Operation(watcher, 1, number))
        print(f"all accepted after {time.monotonic() - started:.1f} s; the loop was never blocked")
    print(f"{batcher.totals.done} done after {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
