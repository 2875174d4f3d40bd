"""A device's measurements, gathered by the time at which they were made: each batch goes out
on time, also when nothing more arrives; a message delivered twice is sent once."""

import time

from dispatcher import Batcher, Operation, Watcher
from dispatcher.builders import EventTimeBuilder
from dispatcher.senders import EventTimeDriver


def write(operations: list[Operation]) -> None:
    """Stands for one call of a cloud's API."""
    batch = operations[0].payload
    print(", ".join(f"{one['type']} at {one['at']}" for one in batch.messages))


def main() -> None:
    """Delivers messages late, twice, and out of order."""
    builder = EventTimeBuilder[dict[str, object]](50, 0.2, key="type", event_time="at")
    watcher = Watcher(write)
    delivered = [
        *[("temperature", 100), ("humidity", 115), ("pressure", 145)],
        ("humidity", 115),  # again: the broker promises to deliver at least once
        ("temperature", 155),  # after the window: a batch of its own
        ("humidity", 90),  # older than all: a batch of its own, up to where the first begins
    ]
    with Batcher() as batcher, EventTimeDriver(builder, batcher, watcher) as driver:
        for kind, at in delivered:
            driver.add({"type": kind, "at": at})
        while batcher.totals.done < 3:  # nothing more arrives, and they go on time
            time.sleep(0.01)
    print(f"done; {builder.duplicates} duplicate was left out")


if __name__ == "__main__":
    main()
