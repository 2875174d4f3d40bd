"""A master, a replica, and three Sentinels that watch over them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from redis import Redis

from limiters.embedded import HOST, EmbeddedRedis
from tests.waiting import until

# What a Sentinel otherwise does every one, two or ten seconds it does this often here. How long
# a fail-over takes is then up to `down-after-milliseconds` and the vote.
_HASTE = ["info-period", "100", "ask-period", "100", "publish-period", "100"]
# A replica is only chosen if it has answered within five of these; but once the master is down
# it is asked every second, whatever the period of that.
_HASTE += ["ping-period", "300"]
# A master that only has to wait for the machine is not to be taken for one that is down.
_SETTINGS = ["down-after-milliseconds", "2000", "failover-timeout", "2000"]


class SentinelProcess(EmbeddedRedis):
    """Run redis-server as a Sentinel."""

    arguments = ("--sentinel",)


class SentinelRedis:
    """A context manager: in its block the Sentinels know the replica and each other."""

    NAME = "mymaster"

    def __init__(self) -> None:
        fast = ["repl-diskless-sync-delay 0"]
        self.servers = [EmbeddedRedis(config=fast), EmbeddedRedis(config=fast)]
        self.sentinels = [SentinelProcess() for _ in range(3)]
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            for process in (*self.servers, *self.sentinels):
                closing.enter_context(process)
            master, replica = self.servers
            _ask(replica, "REPLICAOF", HOST, master.port)
            until(lambda: _follows(replica, master))
            for sentinel in self.sentinels:
                _ask(sentinel, "SENTINEL", "DEBUG", *_HASTE)
                _ask(sentinel, "SENTINEL", "MONITOR", self.NAME, HOST, master.port, 2)
                _ask(sentinel, "SENTINEL", "SET", self.NAME, *_SETTINGS)
            until(self._complete)
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    @property
    def url(self) -> str:
        """The Sentinels and the name of what they watch."""
        addresses = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{addresses}/{self.NAME}"

    @property
    def master(self) -> EmbeddedRedis:
        """The server that all Sentinels call the master."""
        until(lambda: len(set(self.masters())) == 1)
        _, port = self.masters()[0]
        return next(server for server in self.servers if server.port == port)

    @property
    def replica(self) -> EmbeddedRedis:
        """The other one, whether it runs or not."""
        master = self.master
        return next(server for server in self.servers if server is not master)

    def masters(self) -> list[tuple[str, int]]:
        """The master's address, as each of the Sentinels gives it."""
        named = (
            _ask(one, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME) for one in self.sentinels
        )
        return [(host, int(port)) for host, port in named]

    def fail_over(self) -> EmbeddedRedis:
        """Kills the master; returns the new one, when it is that and all Sentinels say so."""
        old, new = self.master, self.replica
        old.kill()
        until(lambda: set(self.masters()) == {(HOST, new.port)})
        until(lambda: _ask(new, "ROLE")[0] == "master")
        return new

    def rejoin(self) -> EmbeddedRedis:
        """Starts the server that was killed; returns it, when it follows the master.

        Until the Sentinels notice it, it takes itself for a master, as it would anywhere.
        """
        master, replica = self.master, self.replica
        replica.start()
        until(lambda: _follows(replica, master))
        until(self._complete)
        return replica

    def _complete(self) -> bool:
        for sentinel in self.sentinels:
            told = _ask(sentinel, "SENTINEL", "MASTER", self.NAME)
            if not isinstance(told, dict):
                told = dict(zip(told[::2], told[1::2], strict=True))
            known = [str(told[key]) for key in ("num-slaves", "num-other-sentinels", "flags")]
            if known != ["1", "2", "master"]:
                return False
        return True


def _follows(replica: EmbeddedRedis, master: EmbeddedRedis) -> bool:
    role = _ask(replica, "ROLE")
    return [role[0], *role[2:4]] == ["slave", master.port, "connected"]


def _ask(server: EmbeddedRedis, *words: str | int) -> Any:
    with Redis(port=server.port, decode_responses=True, protocol=2) as client:
        return client.execute_command(*words)
