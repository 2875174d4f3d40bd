"""The hash of a limit in Redis: it is read in full, or refused with FormatError; and every command
and the exporter can show data that fits its checksums."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping

from dispatcher.cli._commands.leases.table import as_json, page
from dispatcher.cli._text.wording import grants, skew, terms_of, uncertainty, waiters
from dispatcher.metrics._cluster.limit_readings import read_limit
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
    HEADER_BOUND,
    RECORD,
    RECORD_BOUND,
    REGISTRY,
    SCANNED,
    SCANNED_BOUND,
    UNITS,
    Field,
    Fields,
)
from limiters.leases.protocol import LimitView, view_of
from tests.fuzz.inputs import Input, of_blob, of_number, of_numbers

_TEXTS = (b"server", b"nonce", b"cause", b"layout", b"ledger", b"returning", b"lots", b"queue")
_PARTS = (
    (SCANNED, SCANNED_BOUND),
    (RECORD[len(SCANNED) :], RECORD_BOUND[len(SCANNED_BOUND) :]),
)
"""A record: the fields that are scanned, of the instance and of each bound, then the other fields
of both."""


def check(data: bytes) -> None:
    given = Input(data)
    is_whole = given.byte() % 4 != 3
    clock = int(min(2**53, max(-(2**53), _finite(given.number()))))
    fields = {name: given.blob() for name in _TEXTS}
    bounds = 1 + given.byte() % 3
    packed = _packed(given, HEADER, *[HEADER_BOUND] * bounds)
    fields[b"header"] = packed + (header_checksum(packed, fields) if is_whole else given.take(16))
    people, grants = {b"totals": given.blob()}, dict[bytes, bytes]()
    for _ in range(given.byte() % 5):
        name = b"=" + given.blob()
        record = [one for own, bound in _PARTS for one in (own, *[bound] * bounds)]
        fields[name] = _sealed(name, _packed(given, *record))
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
    assert all(one.free <= 1 for one in view.bounds)
    assert all(one.free >= 0 for one in view.bounds if not one.terms.slots)
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
    except (ValueError, LookupError, struct.error, OverflowError):  # only tests read this
        return


def _finite(number: float) -> float:
    return number if abs(number) < 2**60 else 0.0


def _packed(given: Input, *declared: Fields) -> bytes:
    numbers = [given.number() for fields in declared for _ in fields]
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
        "lasting": 1_006,
        "whole": UNITS,
        "ease": 1,
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
    waiter = struct.pack("<5dI", 0, 1, 99_000, 99_500, 50, 1) + struct.pack("<d", 3) + b"0"
    parts = [b"\0", of_number(100_010), *(of_blob(it) for it in (b"s", b"n", b"", b"", b"", b""))]
    parts += [of_blob(waiter), b"\0", _numbers((*HEADER, *HEADER_BOUND), own | values)]
    parts += [of_blob(struct.pack("<2d", 4, 2.5)), bytes([instances])]
    stored = [one for of_both in _PARTS for declared in of_both for one in declared]
    for name in range(instances):
        given = struct.pack("<5d", 1, 1, 1, 99_990, 2.5)
        parts += [of_blob(str(name)), _numbers(stored, record), of_blob("host:7"), of_blob(given)]
    parts += [_numbers(REGISTRY, {"format": FORMAT, "names": 1}), of_blob("106000 6000")]
    return b"".join(parts)


def _numbers(declared: Iterable[Field], values: Mapping[str, float]) -> bytes:
    return of_numbers([values.get(one.name, 0) for one in declared])
