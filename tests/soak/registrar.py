"""Registers the devices that its input names, one a line; messages that waited for them go to the
store.

At the end of its standard input it sends what is left, and ends.
"""

from __future__ import annotations

import sys
import time

from dispatcher import Batcher, Watcher
from dispatcher.registration import EntityStoreError
from dispatcher.senders import GatedSender
from tests.soak.handlers import early, gate
from tests.soak.plan import Plan


def main() -> None:
    """Register devices until the input ends."""
    plan = Plan.from_argument(sys.argv[1])
    watcher = Watcher(early, max_batch_size=plan.max_batch_size)
    with (
        gate() as registered,
        plan.limiter.build() as limiter,
        Batcher(rate_limiter=limiter) as batcher,
        GatedSender(registered, batcher, watcher, batchable=True) as sender,
    ):
        for line in sys.stdin:
            register(sender, line.strip())
        watcher.wait()


def register(sender: GatedSender, device: str) -> None:
    """Register a device; try again while Redis is away."""
    while True:
        try:
            return sender.register(device)
        except EntityStoreError:
            time.sleep(0.1)


if __name__ == "__main__":
    main()
