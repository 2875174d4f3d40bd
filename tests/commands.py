"""Runs commands in tests, and makes the limits that they are about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dispatcher.cli._options.redis import RedisOptions
from limiters import RedisLeaseManager, SharedResource
from limiters.leases._messages import Request, Terms
from tests.waiting import until

COMMAND = [sys.executable, "-m", "dispatcher.cli.main"]
TERMS = Terms.scalar(1_000, 100, 50, 60_000)
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


def unsaid_redis(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Make `url` the default Redis, as if no option named one."""
    monkeypatch.delenv("DISPATCHER_REDIS", raising=False)
    [field] = (it for it in fields(RedisOptions) if it.name == "redis")
    monkeypatch.setattr(field, "default", url)


def asks(instance: str, need: float, **more: Any) -> Request:
    """The first request of an instance."""
    return Request.scalar(instance, 0, TERMS, need=need, **more)


def make(
    manager: RedisLeaseManager,
    capacity: float = TERMS.capacity,
    *,
    lease_time: float = TERMS.lease / 1000,
) -> None:
    """Sets the limit, as an operator does."""
    period = TERMS.period / 1000
    assert manager.set_terms(
        capacity=capacity, factor=TERMS.factor, period=period, lease_time=lease_time
    )


def hold(manager: RedisLeaseManager, *requests: Request) -> None:
    """Asks until all hold what they need, at least."""
    nonce = ""

    def held() -> bool:
        nonlocal nonce
        for request in requests:
            reply = manager.sync(replace(request, seq=time.monotonic_ns(), nonce=nonce))
            nonce = reply.nonce or nonce
        view = manager.look()
        if view is None:  # it was deleted, and is uncertain
            return False
        holds = {one.instance: one.held * view.capacity for one in view.instances}
        return all(holds.get(it.instance, 0) > it.need * (1 - 1e-6) for it in requests)

    until(held)


@contextmanager
def resource(url: str, *, max_interval: float = 0.1, **options: Any) -> Iterator[SharedResource]:
    with (
        closing(RedisLeaseManager(url, name="orders", lease_time=2)) as manager,
        SharedResource(
            shared_capacity=1_000,
            factor=100,
            max_interval=max_interval,
            lease_manager=manager,
            **options,
        ) as made,
    ):
        yield made


def hide(folder: Path, package: str) -> None:
    """With `folder` on its path, a process finds no such package."""
    (folder / f"{package}.py").write_text(
        f"raise ModuleNotFoundError('hidden', name={package!r})\n", encoding="utf-8"
    )
