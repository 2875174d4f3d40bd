"""The reply of Redis to an instance: it is refused as a whole, or followed without an error, and
the instance never spends more than the whole limit because of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from limiters._instance_share import InstanceShare
from limiters.leases._codec import UNREADABLE, reply_of
from limiters.leases._format import FORMAT, REPLY, REPLY_BOUND, UNITS, numbers_of, texts_of
from limiters.leases._messages import Kind, Terms
from tests.fuzz.inputs import Input, of_blob, of_numbers

TERMS = Terms.scalar(capacity=1_000.0, factor=50.0, period=1_000, lease=2_000)


def check(data: bytes) -> None:
    given, now = Input(data), 100.0
    share = InstanceShare("a", TERMS)
    while given.has_more:
        share.want(500.0, 100.0, now)
        share.compose(now)
        answer = [given.blob() for _ in (*texts_of(REPLY), *texts_of(REPLY_BOUND))]
        numbers = [given.number() for _ in (*numbers_of(REPLY), *REPLY_BOUND)]
        packed = struct.pack(f"<{len(numbers)}d", *numbers)
        try:
            reply = reply_of([*answer, packed[: -given.byte() or None]])
        except UNREADABLE:
            share.unanswered(now)
        else:
            share.answered(reply, now, now + 0.001)
            assert 0 <= share.settle(now) <= share.capacity * (1 + 1e-9)
            assert share.ledger.available(now, 0.0) <= share.capacity * (1 + 1e-9)
            assert share.next_call(now) > float("-inf")
            assert share.interval > 0
        now += 0.1


def seeds() -> Iterator[bytes]:
    answer = of_reply(Kind.ANSWER, units=UNITS // 4, keep=UNITS // 4, born=1, permit=1)
    yield answer
    yield of_reply(Kind.CHALLENGE) + answer
    yield of_reply(Kind.REFUSED) + of_reply(Kind.RETRY) + answer + answer


def of_reply(kind: Kind, **values: float) -> bytes:
    own: dict[str, float] = {"format": FORMAT, "now": 100_000, "capacity": 1_000, "factor": 50}
    own |= {"period": 1_000, "lasting": 1_006, "lease": 2_000, "in_force": 1_000, "certain": 1}
    own |= {"permit_cost": 20, "share": UNITS // 4, "back": -1, "given": 1} | values
    strings = {"kind": str(kind).encode(), "server": b"s", "given": struct.pack("<2d", 99_990, 2.5)}
    texts = [
        of_blob(strings.get(one.name, b"")) for one in (*texts_of(REPLY), *texts_of(REPLY_BOUND))
    ]
    numbers = [own.get(one.name, 0) for one in (*numbers_of(REPLY), *REPLY_BOUND)]
    return b"".join(texts) + of_numbers(numbers) + b"\0"
