"""The callbacks of the examples with servers that refuse: the limiter counts what the API charged.

The limiter allows twice as much as the API, so that the API has to refuse.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import NamedTuple

import pytest

from dispatcher import Batcher, Operation, ProvisionedResource, Watcher
from examples.consumed_capacity import Table
from examples.metered.apis import Api, ModelApi, RequestUnitsApi, TableApi
from examples.request_charges import Container
from examples.streaming_answers import LONGEST, Client
from limiters import InFlight, Limits, Rate
from tests.waiting import until

LONG = 600.0
"""A period of the limiter in which nothing expires: it counts exactly what was charged."""


TOKENS = Limits(tokens=Rate(1_000_000, per=LONG, burst=1_000_000), calls=InFlight(50))


class Refusal(NamedTuple):
    """The answer of a server that refuses."""

    code: int
    headers: dict[str, str]
    body: bytes


def counted(limiter: ProvisionedResource) -> float:
    """Return the actual cost that counts against the limit."""
    ledger, *_ = limiter._ledgers
    return ledger.spent(limiter.clock.now())


def refused(api: Api) -> bool:
    return api.meter.refused > 0


def test_z4_a_refused_stream_counts_nothing_and_is_sent_again() -> None:
    api = ModelApi(1_000, 0.5)
    limiter = ProvisionedResource(TOKENS)
    with api.served() as url:
        client = Client(url)
        watcher = Watcher(client.ask, batch_cost={"calls": 1})
        with Batcher(rate_limiter=limiter) as batcher:
            for number in range(40):
                cost = {"tokens": LONGEST}
                batcher.enqueue(Operation(watcher, cost, f"How high is mountain {number}?"))
    assert len(client.answers) == 40
    assert refused(api)
    assert counted(limiter) == api.meter.charged == sum(client.answers)


def test_z4_a_stream_that_breaks_counts_as_estimated_or_as_what_has_come_if_that_is_more() -> None:
    """The API goes on to count what it had begun: the part that came is not what it charges."""
    api = ModelApi(1_000_000, LONG, breaks=1.0)
    limiter = ProvisionedResource(TOKENS)
    estimates = [LONGEST, 10]
    with api.served() as url:
        client = Client(url)
        watcher = Watcher(client.ask, batch_cost={"calls": 1}, max_attempts=1)
        with Batcher(rate_limiter=limiter) as batcher:
            for tokens in estimates:
                batcher.enqueue(Operation(watcher, {"tokens": tokens}, "How high is it?"))
    assert (client.answers, client.broken) == ([], 2)
    assert LONGEST + 10 < counted(limiter) <= LONGEST + api.lost


def test_z4_request_units_are_those_of_the_header_for_any_status() -> None:
    api = RequestUnitsApi(300, 0.5)
    limiter = ProvisionedResource(Limits(units=Rate(1_000_000, per=LONG, burst=1_000_000)))
    with api.served() as url:
        container = Container(url)
        watcher = Watcher(container.create)
        with Batcher(rate_limiter=limiter, max_concurrent_batches=10) as batcher:
            for number in range(100):
                batcher.enqueue(Operation(watcher, 40, {"id": str(number), "kb": 4}))
    assert refused(api)
    assert counted(limiter) == pytest.approx(api.meter.charged)
    assert container.charged == pytest.approx(api.meter.charged)


def test_z4_unprocessed_items_are_sent_again_and_only_consumed_units_count() -> None:
    api = TableApi(30, 0.3)
    limiter = ProvisionedResource(Limits(units=Rate(1_000_000, per=LONG, burst=1_000_000)))
    with api.served() as url:
        table = Table(url)
        watcher = Watcher(table.write, max_batch_size=25)
        with Batcher(rate_limiter=limiter, max_concurrent_batches=2) as batcher:
            for number in range(150):
                item = {"id": number, "bytes": 1_500}
                batcher.enqueue(Operation(watcher, 4, item, batchable=True))
    assert sorted(table.written) == list(range(150))
    assert table.unprocessed
    assert counted(limiter) == api.meter.charged == 300


def test_the_servers_refuse_with_the_headers_of_the_real_apis() -> None:
    def refusal(api: Api, body: bytes) -> Refusal:
        found: list[Refusal] = []

        def asked() -> bool:
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(url, body), timeout=30
                ) as answer:
                    answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    found.append(Refusal(error.code, dict(error.headers), error.read()))
            return bool(found)

        with api.served() as url:
            until(asked)
        return found[0]

    body = b'{"messages": [{"content": "How high?"}], "max_tokens": 50}'
    model = refusal(ModelApi(60, 60), body)
    assert model.code == 429
    for name in ("retry-after-ms", "retry-after", "x-ratelimit-remaining-tokens"):
        assert int(model.headers[name]) >= 0
    cosmos = refusal(RequestUnitsApi(20, 60), b'{"id": "1", "kb": 1}')
    assert (cosmos.code, cosmos.headers["x-ms-substatus"]) == (429, "3200")
    assert float(cosmos.headers["x-ms-retry-after-ms"]) > 0
    put = b'{"PutRequest": {"Item": {"id": 1, "bytes": 9000}}}'
    table = refusal(TableApi(10, 60), b'{"RequestItems": {"orders": [' + put + b"]}}")
    assert table.code == 400
    assert b"ProvisionedThroughputExceededException" in table.body
