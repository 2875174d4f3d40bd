"""The scripts that keep a limit inside Redis, and how a request and a reply are written."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from limiters.leases import ranges
from limiters.leases.manager import LimitView, MemberView, has_left
from limiters.leases.messages import History, Reply, Request, Terms
from limiters.leases.script import Script, from_files

FORMAT = "v1"
"""The version of what is stored, in every key: another format never reads this one's."""

KEYS = ("limit", "members", "asks", "going", "dear", "coming", "spent", "totals", "heard")


def keys_of(prefix: str, name: str) -> tuple[str, ...]:
    """The keys of one limit. They share a hash tag, so that a cluster keeps them together.

    >>> keys_of("dispatcher", "my {db}")[0]
    'dispatcher:v1:{my%20%7Bdb%7D}:limit'
    """
    return tuple(f"{prefix}:{FORMAT}:{{{quote(name, safe='')}}}:{key}" for key in KEYS)


LOOKED_AT = ("limit", "members", "totals")


def looked_at(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the keys of a limit that looking needs."""
    return tuple(keys[KEYS.index(key)] for key in LOOKED_AT)


def script(*files: str) -> Script:
    """The script that `files` make together."""
    return from_files(__package__, *files)


SYNC = script("ranges", "portion", "fair_share", "state", "pool", "members", "totals", "sync")
CONFIGURE = script("ranges", "state", "configure")
EVICT = script("evict")
DELETE = script("delete")
LOOK = script("look")


def arguments_of(request: Request) -> list[str | bytes]:
    """What sync.lua is told."""
    history = [value for entry in request.history for value in entry]
    return [
        as_bytes(request.instance),
        str(request.seq),
        *arguments_of_terms(request.terms),
        ranges.text(request.held),
        str(request.until_ms),
        ranges.text(request.released),
        struct.pack(f"<{len(history)}d", *history),
        repr(float(request.need)),
        repr(float(request.gathering)),
        str(request.waited_ms),
        repr(float(request.weight)),
        str(request.interval_ms),
        repr(float(request.spent)),
        repr(float(request.reserved)),
        as_bytes(request.label),
        str(int(request.leaving)),
        str(request.born_ms),
        struct.pack(f"<{len(request.totals)}d", *request.totals),
    ]


def arguments_of_terms(terms: Terms) -> list[str]:
    """What the scripts are told of terms."""
    return [
        repr(float(terms.capacity)),
        repr(float(terms.factor)),
        str(terms.period_ms),
        str(terms.lease_ms),
        str(terms.version),
    ]


def reply_of(answer: Sequence[Any]) -> Reply:
    """What sync.lua says."""
    if int(answer[0]):
        return Reply(stale=True)
    fields = iter(answer[1:])

    def whole() -> int:
        return int(next(fields))

    def number() -> float:
        return float(next(fields))

    def text() -> str:
        return _text(next(fields))

    # In the order in which sync.lua writes them.
    return Reply(
        created=bool(whole()),
        held=ranges.parse(text()),
        until_ms=whole(),
        lease_ms=whole(),
        history=_history(text()),
        share=number(),
        keep=whole(),
        keep_last=bool(whole()),
        at_once=bool(whole()),
        come_back_ms=whole(),
        quarantine_ms=whole(),
        evicted=bool(whole()),
        capacity=number(),
        terms=Terms(number(), number(), whole(), whole(), whole()),
        members=whole(),
        needs=number(),
        free=whole(),
        born_ms=whole(),
    )


def _history(text: str) -> History:
    entries = (entry.split(":") for entry in text.split(",") if entry)
    return tuple((int(age_ms), float(cost)) for age_ms, cost in entries)


def view_of(answer: Sequence[Any]) -> LimitView | None:
    """What look.lua says."""
    now_ms = int(answer[0])
    limit = _pairs(answer[1])
    if not limit:
        return None
    capacity, start, per_ms = (
        float(limit[field]) for field in ("capacity", "ramp_start", "ramp_per_ms")
    )
    terms = Terms(
        capacity,
        float(limit["factor"]),
        int(limit["period_ms"]),
        int(limit["lease_ms"]),
        int(limit["version"]),
    )
    risen = start + per_ms * max(0, now_ms - int(limit["ramp_start_ms"]))
    in_force = min(capacity, risen) if per_ms > 0 else capacity
    stored = sorted(_pairs(answer[2]).items())
    members = (_member_of(name, one, now_ms, terms.lease_ms) for name, one in stored)
    return LimitView(
        terms=terms,
        capacity=in_force,
        rising=per_ms * 1000 if in_force < capacity else 0.0,
        partitions=int(limit["partitions"]),
        free=ranges.parse(limit["free"]),
        quarantine_ms=max(0, int(limit["quarantine_ms"]) - now_ms),
        members=tuple(one for one in members if one is not None),
        totals=_totals(answer[3]),
    )


def _member_of(name: str, stored: str, now_ms: int, lease_ms: int) -> MemberView | None:
    # In the order in which members.lua writes them.
    evicted, _, until, gone, seen, *numbers, partitions, _, label = stored.split("|", 17)
    until_ms, gone_ms, seen_ms = map(int, (until, gone, seen))
    need, gathering, _, weight, _, share, _, spent, reserved, _ = map(float, numbers)
    held = ranges.parse(partitions)
    if has_left(
        held,
        until_ms=until_ms,
        seen_ms=seen_ms,
        gone_ms=gone_ms,
        lease_ms=lease_ms,
        now_ms=now_ms,
    ):
        return None
    return MemberView(
        instance=name,
        label=label,
        held=held,
        lease_ms=until_ms - now_ms,
        seen_ms=now_ms - seen_ms,
        need=need,
        gathering=gathering,
        spent=spent,
        share=share,
        weight=weight,
        reserved=reserved,
        evicted=evicted == "1",
    )


def _totals(packed: str | bytes | None) -> tuple[float, ...]:
    if packed is None:
        return ()
    if isinstance(packed, str):  # a client that was handed in may decode what it reads
        packed = packed.encode("utf-8", "surrogateescape")
    return struct.unpack(f"<{len(packed) // 8}d", packed)


def _pairs(flat: Sequence[Any]) -> dict[str, str]:
    texts = [_text(one) for one in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def as_bytes(text: str) -> bytes:
    """As names and labels are written, whatever the client would make of them."""
    return text.encode("utf-8", "surrogateescape")


def _text(value: str | bytes | int) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value)
