"""A handler for due reminders. STORE is the address of the store that they are sent to."""

from __future__ import annotations

import http.client
import json
import os
import threading
from typing import Any
from urllib.parse import urlsplit

from dispatcher import Reject, Throttled
from dispatcher.timeline import Lease

_mine = threading.local()  # a connection for each thread that calls


def send(messages: list[Lease]) -> dict[str, Exception] | None:
    """Send a batch in one request, and report which messages can never be sent."""
    good = [message for message in messages if "@" in message.body["to"]]
    bad: dict[str, Exception] = {
        message.id: Reject("no address") for message in messages if message not in good
    }
    if good:
        status = post([{"id": message.id, **message.body} for message in good], cost=len(good))
        if status == 429:
            raise Throttled(retry_after=1)
        if status != 201:
            raise RuntimeError(f"the store answered {status}")
    return bad or None


def post(body: Any, cost: float) -> int:
    """Return the status of one request."""
    place = urlsplit(os.environ["STORE"])
    if not hasattr(_mine, "line"):
        _mine.line = http.client.HTTPConnection(place.netloc, timeout=10)
    line: http.client.HTTPConnection = _mine.line
    try:
        line.request("POST", "/", json.dumps(body).encode(), {"Cost": str(cost)})
        answer = line.getresponse()
        answer.read()
    except BaseException:
        line.close()  # the next request connects again
        raise
    return answer.status
