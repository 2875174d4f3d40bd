"""The hash of a limit, as Redis keeps it: read in full, or refused as FormatError; and whatever
fits its checksums can be shown by every command and by the exporter."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping

from dispatcher.cli._commands.leases.table import as_json, page
from dispatcher.cli._text.wording import grants, skew, terms_of, uncertainty, waiters
from dispatcher.metrics._cluster.cluster import read_limit
from dispatcher.metrics._exposition import text_of
from dispatcher.metrics.readings import Readings
from limiters.leases._codec import (
    FormatError,
    checksum,
    floats_in,
    header_checksum,
    limit_of,
    registry_of,
)
from limiters.leases._format import (
    DEFAULT_SPAN,
    FORMAT,
    HEADER,
    RECORD,
    REGISTRY,
    UNITS,
    Fields,
    numbers_of,
)
from limiters.leases.protocol import LimitView, view_of
from tests.fuzz.inputs import Input, of_blob, of_number, of_numbers

_TEXTS = (b"server", b"nonce", b"cause", b"ledger", b"returning", b"queue")


def check(data: bytes) -> None:
    given = Input(data)
    is_whole = given.byte() % 4 != 3
    clock = int(min(2**53, max(-(2**53), _finite(given.number()))))
    fields = {name: given.blob() for name in _TEXTS}
    packed = _packed(given, HEADER)
    fields[b"header"] = packed + (header_checksum(packed, fields) if is_whole else given.take(16))
    people, grants = {b"totals": given.blob()}, dict[bytes, bytes]()
    for _ in range(given.byte() % 5):
        name = b"=" + given.blob()
        fields[name] = _sealed(name, _packed(given, RECORD))
        people[name] = given.blob()
        grants[name] = _sealed(name, given.blob())
    _read_registry(given, fields)
    try:
        limit = limit_of(fields, people, grants)
    except FormatError:
        return
    assert limit is not None
    view = view_of(limit, floats_in(people[b"totals"]) or (), clock, DEFAULT_SPAN)
    if view is not None:
        _show(view)


def _show(view: LimitView) -> None:
    assert 1 <= view.partitions <= 10_000
    assert 0 <= view.free <= 1
    page("orders", view)
    json.dumps(as_json("orders", view))
    assert terms_of(view)
    assert grants(view)
    "\n".join([*uncertainty(view), *waiters(view), *skew(view)])
    assert text_of(Readings(read_limit("orders", view, members=True)))


def _read_registry(given: Input, fields: Mapping[bytes, bytes]) -> None:
    packed = _packed(given, REGISTRY)
    known = {
        b"server": fields[b"server"],
        b"header": packed + checksum(b"registry", fields[b"server"] + b"\0" + packed),
        b"=orders": _sealed(b"=orders", given.blob()),
    }
    try:
        registry_of(known)
    except (ValueError, LookupError, struct.error, OverflowError):  # for tests alone
        return


def _finite(number: float) -> float:
    return number if abs(number) < 2**60 else 0.0


def _packed(given: Input, declared: Fields) -> bytes:
    numbers = [given.number() for _ in numbers_of(declared)]
    return struct.pack(f"<{len(numbers)}d", *numbers)


def _sealed(name: bytes, text: bytes) -> bytes:
    return text + checksum(name, text)


def seeds() -> Iterator[bytes]:
    yield _seed(instances=0)
    yield _seed(instances=2)
    yield _seed(instances=1, capacity=1e-100, factor=1e-104, deleted=1)


def _seed(*, instances: int, **values: float) -> bytes:
    own: dict[str, float] = {
        "format": FORMAT,
        "now": 100_000,
        "capacity": 1_000,
        "factor": 50,
        "period": 1_000,
    }
    own |= {"lease": 5_000, "instances": instances, "pool": UNITS - instances * 7, "stayed": 1}
    record: dict[str, float] = {
        "units": 7,
        "gone": 107_000,
        "seen": 99_990,
        "interval": 500,
        "until": 105_000,
    }
    record |= {"seq": 1, "born": 1, "ask": 3, "granted": 7, "weight": 1_000, "spent": 2.5}
    waiter = struct.pack("<6dI", 0, 1, 99_000, 3, 99_500, 50, 1) + b"0"
    parts = [b"\0", of_number(100_010), *(of_blob(it) for it in (b"s", b"n", b"", b"", b""))]
    parts += [of_blob(waiter), _numbers(HEADER, own | values), of_blob(struct.pack("<2d", 4, 2.5))]
    parts.append(bytes([instances]))
    for name in range(instances):
        given = struct.pack("<4d", 1, 1, 99_990, 2.5)
        parts += [of_blob(str(name)), _numbers(RECORD, record), of_blob("host:7"), of_blob(given)]
    parts += [_numbers(REGISTRY, {"format": FORMAT, "names": 1}), of_blob("106000 6000")]
    return b"".join(parts)


def _numbers(declared: Fields, values: Mapping[str, float]) -> bytes:
    return of_numbers([values.get(one.name, 0) for one in numbers_of(declared)])
