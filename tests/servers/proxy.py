"""A proxy in front of a Redis server: a network that fails on request."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Self

from limiters.embedded import HOST, EmbeddedRedis
from tests.servers.ports import own_port
from tests.servers.resp import Frames, command, is_push

_PATIENCE = 30.0


class Proxy:
    """Passes requests to `server` and replies back, until a fault is set. Thread-safe.

    Where a fault takes a command (`"EVALSHA"`), it concerns requests of this name, or replies
    to them; without it, any, and that includes what clients say of themselves when they
    connect. `heal()` ends all faults.

    With a `tls` context clients have to speak TLS; the server is spoken to without.
    """

    def __init__(self, server: EmbeddedRedis, *, tls: ssl.SSLContext | None = None) -> None:
        self._server = server
        self._tls = tls
        self._port = own_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._listening: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self._faults = _Faults()
        self._requests: Counter[str] = Counter()
        self._lost = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.accept()
        return self

    def __exit__(self, *error: object) -> None:
        self.refuse()
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def port(self) -> int:
        """Where it listens; it stays the same."""
        return self._port

    @property
    def url(self) -> str:
        """The server's, by way of this proxy."""
        url = self._server.url.replace(f":{self._server.port}/", f":{self._port}/")
        return url if self._tls is None else url.replace("redis:", "rediss:", 1)

    @property
    def requests(self) -> Counter[str]:
        """How many requests have come, by command, those included that were dropped."""
        with self._lock:
            return self._requests.copy()

    @property
    def lost(self) -> int:
        """How many replies `lose_next_reply` has kept back."""
        with self._lock:
            return self._lost

    def lose_next_reply(self, command: str | None = None) -> None:
        """Cuts the connection instead of passing on the next reply: the server has done it."""
        with self._lock:
            self._faults.lose.append(command)

    def delay_replies(self, seconds: float, command: str | None = None) -> None:
        """Keeps every reply back for so long; those behind it on the connection wait too."""
        with self._lock:
            self._faults.delay[command] = seconds

    def drop_requests(self, command: str | None = None) -> None:
        """Neither passes requests on nor answers them; the connections stay."""
        with self._lock:
            self._faults.drop.add(command)

    def rewrite_replies(self, old: bytes, new: bytes) -> None:
        """Puts `new` in the place of `old` wherever a reply has it; both are equally long."""
        if len(old) != len(new):
            raise ValueError(f"new must be as long as old, {len(old)} bytes, not {new!r}")
        with self._lock:
            self._faults.rewrite[old] = new

    def heal(self) -> None:
        """Ends all faults, `refuse` too. What was dropped stays dropped."""
        with self._lock:
            self._faults = _Faults()
        self.accept()

    def cut(self) -> None:
        """Cuts all connections there are; new ones are welcome."""
        self._do(self._cut())

    def refuse(self) -> None:
        """Cuts all connections and refuses new ones (ECONNREFUSED), until `accept()`."""
        self._do(self._refuse())

    def accept(self) -> None:
        """Accept connections again, after a cut."""
        self._do(self._accept())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    async def _accept(self) -> None:
        if self._listening is None:
            self._listening = await asyncio.start_server(
                self._serve, HOST, self._port, ssl=self._tls
            )

    async def _refuse(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        await self._cut()

    async def _cut(self) -> None:
        cut = list(self._connections)
        for connection in cut:
            connection.cancel()
        await asyncio.gather(*cut, return_exceptions=True)

    async def _end(self) -> None:
        # What was accepted just now ends by itself; cancelled before it begins, it would leave its
        # connection open.
        while left := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(left)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or self._listening is None:  # accepted, and then refused
            writer.transport.abort()
            return
        self._connections.add(task)
        writers = [writer]
        try:
            server_reader, server_writer = await asyncio.open_connection(HOST, self._server.port)
            writers.append(server_writer)
            waiting: deque[str] = deque()
            ways = [
                asyncio.ensure_future(self._pass_requests(reader, server_writer, waiting)),
                asyncio.ensure_future(self._pass_replies(server_reader, writer, waiting)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            for one in writers:
                one.transport.abort()

    async def _pass_requests(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, waiting: deque[str]
    ) -> None:
        async for request in _frames(reader):
            name = command(request)
            with self._lock:
                self._requests[name] += 1
                dropped = self._faults.drops(name)
            if not dropped:
                waiting.append(name)
                server.write(request)
                await server.drain()

    async def _pass_replies(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, waiting: deque[str]
    ) -> None:
        async for reply in _frames(reader):
            name = "" if is_push(reply) or not waiting else waiting.popleft()
            with self._lock:
                if self._faults.loses(name):
                    self._lost += 1
                    return
                delay = self._faults.delays(name)
            if delay:
                await asyncio.sleep(delay)
            with self._lock:
                rewritten = self._faults.rewritten(reply)
            client.write(rewritten)
            await client.drain()


class _Faults:
    """The fault to cause. None stands for any command."""

    def __init__(self) -> None:
        self.lose: list[str | None] = []
        self.delay: dict[str | None, float] = {}
        self.drop: set[str | None] = set()
        self.rewrite: dict[bytes, bytes] = {}

    def loses(self, name: str) -> bool:
        for which in (name, None):
            if which in self.lose:
                self.lose.remove(which)
                return True
        return False

    def delays(self, name: str) -> float:
        return self.delay.get(name, self.delay.get(None, 0.0))

    def drops(self, name: str) -> bool:
        return name in self.drop or None in self.drop

    def rewritten(self, reply: bytes) -> bytes:
        for old, new in self.rewrite.items():
            reply = reply.replace(old, new)
        return reply


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    frames = Frames()
    while data := await reader.read(65536):
        for frame in frames.feed(data):
            yield frame
