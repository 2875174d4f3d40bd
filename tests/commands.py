"""Runs commands in tests, and makes the limits that they are about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from limiters import RedisLeaseManager, SharedResource
from limiters.leases import ranges
from limiters.leases.messages import Request, Terms
from limiters.leases.scripts import keys_of
from tests.servers import wait_until

COMMAND = [sys.executable, "-m", "dispatcher.cli.main"]
TERMS = Terms(1_000, 100, 50, 60_000)
"""A lease outlasts the time between the asking and the command that shows it."""
SECRET = "zq1/zq2:zq3@zq4"
PATIENCE = 60


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1
        return json.loads(self.out)


Run = Callable[..., Said]


def outside(*arguments: str, **environment: str) -> Said:
    """A command in a process of its own."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def asks(instance: str, need: float, **more: Any) -> Request:
    """What an instance says, as if it were the first time."""
    return Request(instance, 0, TERMS, need=need, **more)


def hold(manager: RedisLeaseManager, *requests: Request) -> None:
    """Asks until all have what they need. A limit that is new grants at once: nobody holds any."""
    if manager.look() is None:
        manager.sync(requests[0])
        limit = keys_of("dispatcher", manager.name)[0]
        manager._connection.client().hset(limit, "quarantine_ms", "0")

    def held() -> bool:
        for request in requests:
            manager.sync(replace(request, seq=time.monotonic_ns()))
        view = manager.look()
        assert view is not None
        needs = {request.instance: request.need for request in requests}
        return needs == {one.instance: 100 * ranges.count(one.held) for one in view.members}

    wait_until(held)


@contextmanager
def resource(url: str, **options: Any) -> Iterator[SharedResource]:
    with (
        closing(RedisLeaseManager(url, name="orders", lease_time=2)) as manager,
        SharedResource(
            shared_capacity=1_000, factor=100, max_interval=0.1, lease_manager=manager, **options
        ) as made,
    ):
        yield made


def hide(folder: Path, package: str) -> None:
    """With `folder` on its path, a process finds no such package."""
    (folder / f"{package}.py").write_text(
        f"raise ModuleNotFoundError('hidden', name={package!r})\n", encoding="utf-8"
    )
