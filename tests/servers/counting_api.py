"""An API over HTTP that allows so much and counts what it sees, as a process of its own.

`python -m tests.servers.counting_api '{"requests": {"rate": 60, "per": 6, "also": [[10, 1]]},
"calls": {"in_flight": 20}}'` prints its port. It has no code of the project: it is what the project
is judged by.

* `POST /calls` with `{"who": ..., "began": ..., "seconds": ..., "costs": {"requests": 1}}` is
  answered after so many seconds. What does not fit is answered 429 immediately, as APIs do: with
  Retry-After, and what each window has left in x-ratelimit-... headers. A call whose client has
  gone away is in flight until it would have been answered: an API goes on with it.
* `GET /report`: the fullest window of each kind and the most calls in flight, in words.
* `GET /calls`: every call, for `judged`.
"""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from tests.servers.counted import Allowed, Call, Judgement, Meter, judged

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
PATIENCE = 60.0


def now() -> float:
    """By the clock by which the library counts, where the system has it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class CountingApi:
    """Such a process. A context manager."""

    def __init__(self, limits: Mapping[str, Mapping[str, Any]]) -> None:
        self.allowed = Allowed.of(limits)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.counting_api", json.dumps(limits)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()

    def calls(self) -> list[Call]:
        """All that have arrived."""
        with urlopen(f"http://{HOST}:{self.port}/calls", timeout=PATIENCE) as answer:
            found = json.load(answer)
        return [Call(**one | {"ended": one["ended"] or math.inf}) for one in found]

    def judged(self) -> Judgement:
        """Whether they kept to what is allowed."""
        return judged(self.calls(), self.allowed)


@dataclass(frozen=True)
class Answer:
    """The answer to a call."""

    status: str
    body: Any
    headers: Mapping[str, str]

    def encoded(self) -> bytes:
        """The bytes of HTTP."""
        body = json.dumps(self.body).encode()
        headers = {"Content-Type": "application/json", "Content-Length": len(body), **self.headers}
        lines = [f"HTTP/1.1 {self.status}", *(f"{name}: {one}" for name, one in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + body


class Api:
    """Its calls, and what it answers."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._meters = [Meter(window) for window in allowed.windows]
        self._calls: list[Call] = []
        self._in_flight = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until its client closes it or is gone."""
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split()
                length = 0
                while (header := await reader.readline()).strip():
                    name, _, value = header.decode().partition(":")
                    if name.lower() == "content-length":
                        length = int(value)
                body = await reader.readexactly(length)
                writer.write((await self._answer(method, path, body)).encoded())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: bytes) -> Answer:
        match method, path:
            case "POST", "/calls":
                return await self._call(**json.loads(body))
            case "GET", "/report":
                return Answer("200 OK", str(judged(self._calls, self._allowed)), {})
            case "GET", "/calls":
                return Answer("200 OK", [self._noted(one) for one in self._calls], {})
        return Answer("404 Not Found", f"no {method} {path}", {})

    @staticmethod
    def _noted(call: Call) -> dict[str, Any]:
        return asdict(call) | {"ended": call.ended if math.isfinite(call.ended) else None}

    async def _call(
        self, who: str, began: float, seconds: float, costs: dict[str, float]
    ) -> Answer:
        arrived = now()
        wait = max(
            (one.room_in(costs.get(one.window.dimension, 0), arrived) for one in self._meters),
            default=0.0,
        )
        if self._in_flight >= self._allowed.in_flight:
            wait = max(wait, 0.1)
        call = Call(who, began, arrived, arrived if wait else math.inf, costs, wait > 0)
        place = len(self._calls)
        self._calls.append(call)
        if wait:
            return Answer("429 Too Many Requests", "too many", self._headers(arrived, wait))
        for one in self._meters:
            one.add(costs.get(one.window.dimension, 0), arrived)
        self._in_flight += 1
        await asyncio.sleep(seconds)
        self._in_flight -= 1
        self._calls[place] = replace(call, ended=now())
        return Answer("200 OK", "served", self._headers(now()))

    def _headers(self, at: float, wait: float = 0.0) -> dict[str, str]:
        headers = {}
        for meter in self._meters:
            window = meter.window
            name = f"{window.dimension}-{window.seconds:g}s"
            headers[f"x-ratelimit-limit-{name}"] = f"{window.most:g}"
            headers[f"x-ratelimit-remaining-{name}"] = f"{meter.left(at):g}"
        if wait:
            # The header is in whole seconds by its standard; APIs add a more exact one.
            headers["Retry-After"] = f"{math.ceil(wait) if math.isfinite(wait) else 3600}"
            headers["retry-after-ms"] = f"{math.ceil(min(wait, 3600) * 1000)}"
        return headers


async def main() -> None:
    """Serves until it is killed, or its input ends: it does not outlive what started it."""
    api = Api(Allowed.of(json.loads(sys.argv[1])))
    server = await asyncio.start_server(api.serve, HOST, 0, backlog=1000)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
