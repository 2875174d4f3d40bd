"""Handlers for workers that tests start as processes. What they need to know is in variables.

LOG: a file, to which a line of JSON is appended in one piece as a batch begins and as it ends.
STORE: where batches are sent. GO_ON: a file that slow handlers wait for.
"""

from __future__ import annotations

import json
import os
import random
import threading
from typing import Any

from dispatcher import Retry
from dispatcher.timeline import Lease
from examples.reminders.handlers import post
from tests.processes.wrong_clocks import right_time, righted
from tests.starts import began

_log = os.open(os.environ.get("LOG", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_dice = random.Random()


def note(what: str, messages: list[Lease], **more: float) -> None:
    """One line, with the right time."""
    line = {
        "what": what,
        **more,
        "at": right_time() * 1000,
        "pid": os.getpid(),
        "messages": [(it.id, it.token, it.until) for it in messages],
    }
    os.write(_log, json.dumps(line).encode() + b"\n")


def send(messages: list[Lease]) -> dict[str, Exception] | None:
    """Sends them to the store; now and then something goes wrong."""
    note("begin", messages, charged=righted(began()))
    try:
        return _sent(messages)
    finally:
        note("end", messages)


def _sent(messages: list[Lease]) -> dict[str, Exception]:
    chance = _dice.random()
    if chance < 0.02:
        raise OSError("the connection was reset")
    failed: dict[str, Exception] = {}
    if chance < 0.1:
        failed = {it.id: Retry(after=0.05) for it in messages[::7]}
    good = [it for it in messages if it.id not in failed]
    if good:
        status = post([it.id for it in good], cost=len(good))
        if status != 201:
            raise RuntimeError(f"the store answered {status}")
        note("handled", good)
    return failed


def quick(messages: list[Lease]) -> None:
    """Notes that they were handled."""
    note("handled", messages)


def slow(messages: list[Lease]) -> None:
    """Goes on when a file is there."""
    note("begin", messages)
    step = threading.Event()
    while not os.path.exists(os.environ["GO_ON"]):
        step.wait(0.005)
    note("handled", messages)


def crash(messages: list[Lease]) -> Any:
    """Takes the process with it, as a bug in some C library would."""
    note("begin", messages)
    os._exit(7)
