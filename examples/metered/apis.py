"""Small HTTP servers that charge and refuse as three well-known APIs do, with their own headers.

Each keeps its limit in any window of a period, by what calls have cost in truth from when they came
in, and answers 429 (or as DynamoDB does) to what is beyond it.
"""

import json
import math
import random
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Headers = dict[str, str]


class Meter:
    """Charges of the last period. Thread-safe."""

    def __init__(self, capacity: float, period: float) -> None:
        self.capacity, self.period = capacity, period
        self.charged = self.refused = 0.0
        self._recent: deque[tuple[float, float]] = deque()
        self._lock = threading.Lock()

    def charge(self, cost: float) -> float:
        """Charges a cost; or the seconds to wait, if it does not fit."""
        with self._lock:
            now = time.monotonic()
            while self._recent and self._recent[0][0] <= now - self.period:
                self._recent.popleft()
            if self.left < cost:
                self.refused += 1
                return max(0.001, self._recent[0][0] + self.period - now if self._recent else 0.001)
            self._recent.append((now, cost))
            self.charged += cost
            return 0.0

    @property
    def left(self) -> float:
        """Return the cost that may still be charged in this period."""
        return self.capacity - math.fsum(cost for _, cost in self._recent)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """Connections that may wait; with the default of 5 a busy server resets others."""


class Api:
    """One server. `answer` is called by a thread for each request."""

    def __init__(self, capacity: float, period: float = 1.0) -> None:
        self.meter = Meter(capacity, period)
        self.chance = random.Random(7)

    def answer(self, request: BaseHTTPRequestHandler, sent: dict[str, Any]) -> None:
        """Answers a request that has sent this body."""
        raise NotImplementedError

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serves it: its address."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                api.answer(self, json.loads(body))

            def log_message(self, *arguments: object) -> None:
                pass

        server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()


def reply(
    request: BaseHTTPRequestHandler, status: int, body: object, headers: Headers | None = None
) -> None:
    """Send an answer that is not a stream."""
    text = json.dumps(body).encode()
    request.send_response(status)
    for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(text)))
    request.end_headers()
    request.wfile.write(text)


class ModelApi(Api):
    """Chat completions that stream: tokens, and a last event with `usage`, as OpenAI's with
    `stream_options: {"include_usage": true}`. Some streams break: they are charged in full.

    * `breaks`: the part of the streams that break.
    """

    def __init__(self, capacity: float, period: float = 1.0, breaks: float = 0.0) -> None:
        super().__init__(capacity, period)
        self.breaks = breaks
        self.lost = 0
        """Tokens that were charged for streams that broke."""

    def answer(self, request: BaseHTTPRequestHandler, sent: dict[str, Any]) -> None:
        prompt = len(sent["messages"][0]["content"].split())
        length = min(sent["max_tokens"], round(self.chance.lognormvariate(4.0, 0.4)))
        wait = self.meter.charge(prompt + length)
        if wait:
            headers = {
                "retry-after-ms": str(math.ceil(1000 * wait)),
                "retry-after": str(math.ceil(wait)),
                "x-ratelimit-limit-tokens": f"{self.meter.capacity:.0f}",
                "x-ratelimit-remaining-tokens": f"{max(0.0, self.meter.left):.0f}",
                "x-ratelimit-reset-tokens": f"{math.ceil(1000 * wait)}ms",
            }
            error = {
                "type": "tokens",
                "code": "rate_limit_exceeded",
                "message": "Rate limit reached",
            }
            reply(request, 429, {"error": error}, headers)
            return
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Connection", "close")
        request.end_headers()
        request.close_connection = True
        broken = self.chance.random() < self.breaks
        if broken:
            self.lost += prompt + length
        for _ in range(length // 2 if broken else length):
            _event(request, {"choices": [{"delta": {"content": "word "}}], "usage": None})
            time.sleep(0.001)
        if broken:
            return
        usage = {"prompt_tokens": prompt, "completion_tokens": length}
        _event(request, {"choices": [], "usage": usage | {"total_tokens": prompt + length}})
        request.wfile.write(b"data: [DONE]\n\n")


def _event(request: BaseHTTPRequestHandler, body: object) -> None:
    request.wfile.write(f"data: {json.dumps(body)}\n\n".encode())


class RequestUnitsApi(Api):
    """Documents are created at a charge that each answer has in a header, as Cosmos DB's; refusals
    have one as well."""

    def answer(self, request: BaseHTTPRequestHandler, sent: dict[str, Any]) -> None:
        charge = round(5 + 2 * sent["kb"] + self.chance.uniform(-1, 1), 2)
        wait = self.meter.charge(charge)
        if wait:
            headers = {
                "x-ms-retry-after-ms": str(math.ceil(1000 * wait)),
                "x-ms-substatus": "3200",
                "x-ms-request-charge": "0",
            }
            reply(request, 429, {"code": "429", "message": "Request rate is large."}, headers)
            return
        reply(request, 201, {"id": sent["id"]}, {"x-ms-request-charge": f"{charge}"})


class TableApi(Api):
    """BatchWriteItem, as DynamoDB's: what does not fit comes back as UnprocessedItems, and
    ConsumedCapacity is what was charged. Nothing fits: an exception."""

    def answer(self, request: BaseHTTPRequestHandler, sent: dict[str, Any]) -> None:
        ((table, puts),) = sent["RequestItems"].items()
        consumed, unprocessed = 0.0, list[Any]()
        for put in puts:
            units = math.ceil(put["PutRequest"]["Item"]["bytes"] / 1024)
            if unprocessed or self.meter.charge(units):
                unprocessed.append(put)
            else:
                consumed += units
        if len(unprocessed) == len(puts):
            kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
            reply(request, 400, {"__type": kind, "message": "The level of throughput is exceeded."})
            return
        answer = {"UnprocessedItems": {table: unprocessed} if unprocessed else {}}
        capacity = [{"TableName": table, "CapacityUnits": consumed}]
        reply(request, 200, answer | {"ConsumedCapacity": capacity})
