"""The handlers that send rows to the store: of Spark's executors, of workers, and of the registrar.

Each one notes its spending when it begins, then sends its rows to the store. STORE, NOTES and GATE
are the addresses.
"""

from __future__ import annotations

import os
from typing import Any

from dispatcher import Operation, Reject, Throttled
from dispatcher.registration import RedisEntityStore, RegistrationGate
from dispatcher.timeline import Lease
from examples.reminders.handlers import post
from tests.processes.noted import append
from tests.starts import began

EARLY, IN_ORDER, TOGETHER, DUE = "registrar", "subject sink", "event sink", "workers"


def gate() -> RegistrationGate:
    """Return the gate of all processes. Messages may wait in it without a limit of time."""
    return RegistrationGate(
        RedisEntityStore(os.environ["GATE"], name="devices", timeout=5),
        telemetry_per_entity=1_000_000,
        telemetry_limit=10_000_000,
        max_age=86_400,
    )


def in_order(rows: list[dict[str, Any]], context: Any) -> None:
    """Send rows of some devices, those of each in order."""
    _send(IN_ORDER, [(row["device"], row["seq"]) for row in rows], context.late)


def together(rows: list[dict[str, Any]], context: Any) -> None:
    """Send rows that a device has measured at about the same time."""
    _send(TOGETHER, [(row["device"], row["seq"]) for row in rows], context.late)


def early(batch: list[Operation]) -> None:
    """Send the rows that devices had measured before they were registered."""
    rows = [message for one in batch for message in one.payload.messages]
    _send(EARLY, [(row["device"], row["seq"]) for row in rows], cost=len(batch))


def due(messages: list[Lease]) -> dict[str, Exception] | None:
    """Send reminders; some can never be sent."""
    bad: dict[str, Exception] = {
        one.id: Reject("it has no address") for one in messages if one.body["to"] is None
    }
    good = [("", one.body["number"]) for one in messages if one.id not in bad]
    if good:
        _send(DUE, good)
    return bad


def _send(
    who: str, rows: list[tuple[str, int]], late: bool = False, cost: float | None = None
) -> None:
    cost = len(rows) if cost is None else cost
    append(os.environ["NOTES"], f"{began()}\t{who}\t{cost}")
    status = post({"who": who, "pid": os.getpid(), "rows": rows, "late": late}, cost)
    if status == 429:
        raise Throttled(retry_after=1)
    if status != 201:
        raise RuntimeError(f"the store answered {status}")
