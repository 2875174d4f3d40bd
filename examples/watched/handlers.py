"""A handler that takes a moment, and for which some messages cannot be sent."""

from __future__ import annotations

import time

from dispatcher import Reject
from dispatcher.timeline import Lease


def send(messages: list[Lease]) -> dict[str, Exception]:
    """Stands for a request to a datastore."""
    time.sleep(0.01)
    return {one.id: Reject("no address") for one in messages if not one.body["to"]}
