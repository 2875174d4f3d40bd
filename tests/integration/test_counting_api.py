"""The API that counts: what it answers, and what it says about its clients."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from tests.servers.counting_api import HOST, CountingApi, now
from tests.waiting import until

LIMITS: dict[str, dict[str, Any]] = {
    "requests": {"rate": 3, "per": 3600, "also": [[2, 1800]]},
    "calls": {"in_flight": 1},
}


@pytest.fixture
def api() -> Iterator[CountingApi]:
    with CountingApi(LIMITS) as api:
        yield api


def request(seconds: float = 0.0) -> str:
    body = {"who": "a", "began": now(), "seconds": seconds, "costs": {"requests": 1}}
    return json.dumps(body)


def post(api: CountingApi, *seconds: float) -> list[http.client.HTTPResponse]:
    """One after the other, over one connection."""
    connection = http.client.HTTPConnection(HOST, api.port)
    answers = []
    for one in seconds:
        connection.request("POST", "/calls", request(one))
        answers.append(connection.getresponse())
        answers[-1].read()
    connection.close()
    return answers


def test_it_answers_429_as_apis_do_and_counts_what_it_refuses(api: CountingApi) -> None:
    first, second, third = post(api, 0, 0, 0)
    assert [one.status for one in (first, second, third)] == [200, 200, 429]
    assert first.headers["x-ratelimit-remaining-requests-3600s"] == "2"
    assert second.headers["x-ratelimit-remaining-requests-1800s"] == "0"
    assert 0 < int(third.headers["Retry-After"]) <= 1800
    assert 0 < int(third.headers["retry-after-ms"]) <= 1_800_000
    verdict = api.judged()
    assert (verdict.calls, verdict.refused, verdict.over) == (3, 1, 1)
    assert [one.most for one in verdict.by_began] == [3, 3]
    with urlopen(f"http://{HOST}:{api.port}/report") as answer:
        assert "2 requests per 1800 s: at most 3, 1 of 3 windows over" in json.load(answer)


def test_a_call_whose_client_is_gone_is_in_flight_until_its_end(api: CountingApi) -> None:
    body = request(2.0)
    with socket.create_connection((HOST, api.port)) as client:
        client.sendall(
            f"POST /calls HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        until(api.calls)
    (second,) = post(api, 0)
    assert second.status == 429
    until(lambda: api.calls()[0].ended <= now())
    (served,) = [one for one in api.calls() if not one.refused]
    assert served.ended - served.arrived >= 2.0
    assert served.began <= served.arrived <= now()
