"""The limits of one server, stored by the reference in Python and by the scripts inside Redis."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from typing import Any

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import ResponseError

from limiters import ArgumentError
from limiters.leases._codec import (
    arguments_of,
    change_of,
    header_checksum,
    pairs,
    read_limit,
    registry_of,
    reply_of,
)
from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.state import Registry
from limiters.leases._format import CHECK_LENGTH, HEADER, HEADER_BOUND, NEVER, RECORD_PREFIX
from limiters.leases._ledger import Ledger
from limiters.leases._messages import Reply, Request, as_bytes
from limiters.leases._scripts import TWIN, keys_of, registry_key, source_of
from limiters.leases._terms_change import LimitChange
from tests.twins.compared import plain

SERVER = """
local function server_time() return tonumber(ARGV[#ARGV]) end
local function server_identity() return ARGV[#ARGV - 1], '7.0.0' end
"""
"""This replaces limit_server.lua: the last arguments of a call are the identity and the time."""

STORED = """
local all = {}
for i, key in ipairs(KEYS) do all[i] = redis.call('HGETALL', key) end
return all
"""

NAMES = ("orders", "mails {eu}")

_REFUSALS = {"factor": "too many partitions", "layout": "a limit of another layout"}


class InPython:
    """The limits of one server, stored by the reference."""

    def __init__(self, registered: bool) -> None:
        self.limits = {name: Coordinator(name, registered=registered) for name in NAMES}
        self._registry: Registry | None = None

    def _at(self, name: str) -> Coordinator:
        one = self.limits[name]
        one.registry = self._registry
        return one

    def sync(self, name: str, request: Request, server: str, clock: int) -> Reply:
        one = self._at(name)
        try:
            return one.sync(request, server, clock)
        finally:
            self._registry = one.registry

    def set_terms(
        self, name: str, server: str, clock: int, token: str, change: LimitChange
    ) -> bool | str:
        one = self._at(name)
        try:
            return one.set_terms(server, clock, token, change)
        except ArgumentError as error:
            return _REFUSALS.get(error.parameter, "what no limit can have")
        finally:
            self._registry = one.registry

    def delete(self, name: str, server: str, clock: int, token: str) -> bool:
        one = self._at(name)
        done = one.delete(server, clock, token)
        self._registry = one.registry
        return done

    def evict(self, name: str, instance: str) -> bool:
        return self.limits[name].evict(instance)

    def stored(self, name: str) -> Any:
        one = self.limits[name]
        return plain((one.limit, one.totals.counts, self._registry))

    def mark(self, server: str) -> None:
        self._registry = Registry(server, NEVER)

    def lose(self, name: str) -> None:
        self.limits[name].limit = None

    def lose_grants(self, name: str) -> None:
        limit = self.limits[name].limit
        for record in limit.records.values() if limit else ():
            for one in record.holdings:
                one.given = Ledger()

    def lose_registry(self) -> None:
        self._registry = None

    def corrupt(self, name: str) -> None:
        limit = self.limits[name].limit
        if limit is not None:
            limit.bounds[0].pool += -1 if limit.bounds[0].pool > 0 else 1

    def copied(self) -> Callable[[], None]:
        """Return a function that restores the data of this moment."""
        limits, registry = copy.deepcopy((self.limits, self._registry))

        def restore() -> None:
            self.limits, self._registry = copy.deepcopy((limits, registry))

        return restore


class Scripts:
    """A server with the scripts: each call passes the time of its clock."""

    def __init__(self, client: Redis, change: Callable[[str], str] = str) -> None:
        """`change` returns another text for each script."""
        self.client: Any = client
        self._loaded = {
            part: client.script_load(change(source_of(*TWIN, part, server=SERVER)))
            for part in ("sync", "set", "delete", "evict")
        }
        self._loaded["stored"] = client.script_load(STORED)
        self._loaded["mark"] = client.script_load(source_of("registry", "mark", server=SERVER))

    def __getitem__(self, part: str) -> str:
        """Return the hash by which the server finds the script."""
        return str(self._loaded[part])


class InRedis:
    """The limits of `InPython`, stored by the scripts. Calls are sent together when their
    answers are collected."""

    def __init__(self, scripts: Scripts, registered: bool) -> None:
        self._scripts = scripts
        self.client = scripts.client
        self.keys = {name: keys_of("twin", name, registered=registered) for name in NAMES}
        self._pipe: Pipeline = self.client.pipeline(transaction=False)
        self._reads: list[Callable[[Any], Any] | None] = []
        """How each expected answer is read, if it matters."""
        self._answers: list[Any] = []
        self._send("flushall")

    def _send(
        self, command: str, *arguments: Any, read: Callable[[Any], Any] | None = None
    ) -> None:
        """Send the call with the next ones. Without `read` its answer does not matter."""
        getattr(self._pipe, command)(*arguments)
        self._reads.append(read)

    def _call(
        self, part: str, keys: tuple[str, ...], *arguments: Any, read: Callable[[Any], Any]
    ) -> None:
        self._send("evalsha", self._scripts[part], len(keys), *keys, *arguments, read=read)

    def _arrive(self) -> None:
        reads, self._reads = self._reads, []
        for read, answer in zip(reads, self._pipe.execute(raise_on_error=False), strict=True):
            if isinstance(answer, ResponseError) and read is not _read_set:
                raise answer
            if read is not None:
                self._answers.append(read(answer))

    def answers(self) -> list[Any]:
        """Return the answers to all calls since the last time, in order."""
        self._arrive()
        answers, self._answers = self._answers, []
        return answers

    def sync(self, name: str, request: Request, server: str, clock: int) -> None:
        arguments = [as_bytes(name), *arguments_of(request), server, clock]
        self._call("sync", self.keys[name], *arguments, read=reply_of)

    def set_terms(
        self, name: str, server: str, clock: int, token: str, change: LimitChange
    ) -> None:
        arguments = [as_bytes(name), token, *change_of(change), server, clock]
        self._call("set", self.keys[name], *arguments, read=_read_set)

    def delete(self, name: str, server: str, clock: int, token: str) -> None:
        arguments = [as_bytes(name), token, server, clock]
        self._call("delete", self.keys[name], *arguments, read=bool)

    def evict(self, name: str, instance: str) -> None:
        arguments = [as_bytes(name), as_bytes(instance), "any", 0]
        self._call("evict", self.keys[name], *arguments, read=bool)

    def mark(self, server: str) -> None:
        self._call("mark", (registry_key("twin"),), server, 0, read=_expect_one)

    def lose(self, name: str) -> None:
        self._send("delete", self.keys[name][0], read=_nothing)

    def lose_grants(self, name: str) -> None:
        self._send("delete", self.keys[name][1], read=_nothing)

    def lose_registry(self) -> None:
        self._send("delete", registry_key("twin"), read=_nothing)

    def corrupt(self, name: str) -> None:
        self._arrive()
        key = self.keys[name][0]
        fields = self.client.hgetall(key)
        if not fields:
            self._answers.append(None)
            return
        header = fields[b"header"][:-CHECK_LENGTH]
        at = 8 * (len(HEADER) + [field.name for field in HEADER_BOUND].index("pool"))
        (pool,) = struct.unpack_from("<d", header, at)
        other = struct.pack("<d", pool - 1 if pool > 0 else pool + 1)
        changed = header[:at] + other + header[at + 8 :]
        changed += header_checksum(changed, fields)
        self._send("hset", key, "header", changed, read=_nothing)

    def ask_for_stored(self, name: str) -> None:
        """Ask for what `InPython.stored` returns."""
        keys = self.keys[name]
        self._call("stored", (*keys[:3], keys[4] if len(keys) > 4 else "none"), read=_read_stored)

    def copied(self) -> Callable[[], None]:
        self._arrive()
        keys = {one for each in self.keys.values() for one in each}
        dumps = {key: self.client.dump(key) for key in keys}

        def restore() -> None:
            for key, dump in dumps.items():
                if dump is None:
                    self._send("delete", key)
                else:
                    self._send("restore", key, 0, dump, True)

        return restore


def _read_set(answer: Any) -> bool | str:
    if isinstance(answer, ResponseError):
        assert "INVALID" in str(answer)
        return "what no limit can have"
    if isinstance(answer, list):
        return _REFUSALS["factor"]
    return bool(answer) if isinstance(answer, int) else _REFUSALS["layout"]


def _expect_one(answer: Any) -> None:
    assert answer == 1


def _nothing(answer: Any) -> None:
    """Ignore the answer, since another server may have lost another number of keys."""


def _read_stored(answer: list[Any]) -> Any:
    limit, grants, people, registry = map(pairs, answer)
    # Nothing is left of instances that were evicted.
    known, *others = (
        {one for one in each if one.startswith(RECORD_PREFIX.encode())}
        for each in (limit, grants, people)
    )
    assert not known or all(other <= known for other in others)
    packed = people.get(b"totals", b"")
    totals = struct.unpack(f"<{len(packed) // 8}d", packed)
    found = read_limit(limit, people, grants) if limit else None
    return plain((found, totals, registry_of(registry)))
