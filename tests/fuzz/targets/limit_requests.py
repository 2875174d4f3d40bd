"""Requests of broken or hostile instances, and changes of an operator, in any order: they are
refused as INVALID or served; the units always sum to the whole limit, and all stored data can be
read again."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from limiters._support.validation import ArgumentError
from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.certainty import agrees
from limiters.leases._coordinator.state import Holding
from limiters.leases._format import RECORD, RECORD_BOUND, REQUEST, REQUEST_BOUND, Field, FieldKind
from limiters.leases._messages import BoundTerms, Kind, Request, Terms, altered
from limiters.leases._operator import TermsChange
from limiters.leases.protocol import view_of
from tests.fuzz.inputs import Input, of_blob, of_number

TERMS = Terms.scalar(capacity=1_000.0, factor=50.0, period=1_000, lease=2_000)
FIELDS = (*REQUEST, *REQUEST_BOUND)
_OF_TERMS = {one.name for one in fields(Terms)}
_OF_BOUND_TERMS = {one.name for one in fields(BoundTerms)}


def check(data: bytes) -> None:
    given, clock, coordinator = Input(data), 1_000_000, Coordinator()
    nonces, borns, seq = dict[str, str](), dict[str, int](), 0
    while given.has_more:
        what, seq = given.byte() % 8, seq + 1
        server = f"server {given.byte() % 8 // 7}"
        clock += int(max(-(10**6), min(10**6, given.number()))) if what > 3 else 100
        if what == 5:
            _change(coordinator, given, server, clock)
        elif what == 6:
            coordinator.evict(given.choice("abc"))
        elif what == 7:
            coordinator.delete(server, clock, f"deleted {seq}")
        else:
            name = given.choice("abc")
            usual = Request.scalar(name, seq, TERMS, need=500.0, server=server)
            valid = replace(usual, nonce=nonces.get(name, ""), born=borns.get(name, 0))
            reply = coordinator.sync(_request(given, valid), server, clock)
            if reply.kind in (Kind.ANSWER, Kind.CHALLENGE):
                nonces[name], borns[name] = reply.nonce, reply.born
        _judge(coordinator, clock)


def _judge(coordinator: Coordinator, clock: int) -> None:
    limit = coordinator.limit
    if limit is None:
        return
    assert agrees(limit)
    assert all(bound.pool >= 0 for bound in limit.bounds)
    for record in limit.records.values():
        for one in RECORD:
            assert one.fits(getattr(record, one.name)), f"{one.name} of {record!r}"
        for holding in record.holdings:
            for one in RECORD_BOUND:
                assert one.fits(_stored(holding, one)), f"{one.name} of {holding!r}"
    view_of(limit, coordinator.totals.counts, clock, coordinator.default_span)


def _stored(holding: Holding, one: Field) -> Any:
    owner, _, name = one.name.partition("_")
    return getattr(holding.permit, name) if owner == "permit" else getattr(holding, one.name)


def _request(given: Input, request: Request) -> Request:
    for _ in range(given.byte() % 8):
        one = given.choice(FIELDS)
        value: Any = given.number()
        if one.kind is FieldKind.TEXT:
            value = given.text()
        elif one.kind in (FieldKind.PAIRS, FieldKind.FLOATS):
            packed = given.blob()
            numbers = struct.unpack(f"<{len(packed) // 8}d", packed[: len(packed) // 8 * 8])
            value = tuple(numbers)
            if one.kind is FieldKind.PAIRS:
                value = tuple(zip(numbers[::2], numbers[1::2], strict=False))
        elif one.kind is FieldKind.FLAG:
            value = bool(value)
        elif one.kind is FieldKind.WHOLE and value == value and abs(value) < 1e300:
            value = int(value)
        request = _with(request, one.name, value)
    return request


def _with(request: Request, name: str, value: Any) -> Request:
    """Return the request with another value, which may belong to its terms or its bound."""
    [bound] = request.terms.bounds
    if name in _OF_BOUND_TERMS:
        terms = replace(request.terms, bounds=(replace(bound, **{name: value}),))
        return replace(request, terms=terms)
    if name in _OF_TERMS:
        return replace(request, terms=replace(request.terms, **{name: value}))
    return altered(request, **{name: value})


def _change(coordinator: Coordinator, given: Input, server: str, clock: int) -> None:
    names = ("capacity", "factor", "period", "lease_time", "ramp")
    changes: dict[str, Any] = {name: given.number() for name in names if given.byte() % 2}
    try:
        change = TermsChange(**changes)
        coordinator.set_terms(server, clock, f"set {clock}", change.of(None))
    except ArgumentError:
        return


def seeds() -> Iterator[bytes]:
    ask = b"\0\0"
    yield b"".join([ask + bytes([number % 3, 0]) for number in range(70)])
    pairs = of_number(0) + of_blob(struct.pack("<2d", 10, 2.5))
    names = [one.name for one in FIELDS]
    release = bytes([names.index("released")]) + of_number(2**30)
    history = bytes([names.index("history")]) + pairs
    started = b"\4\0" + of_number(10**4) + b"\0\0"
    yield ask + b"\0\0" + started + (ask + b"\0\0") * 3 + ask + b"\0\2" + release + history
    change = b"\5\0" + of_number(10) + b"\1" + of_number(500) + b"\0\0\1" + of_number(3) + b"\0"
    yield ask + b"\0\0" + change + b"\6\0" + of_number(5) + b"\0" + b"\7\0" + of_number(9) + ask
