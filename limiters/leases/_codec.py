"""How requests, replies and what is stored are written, by the declarations in `_format`.

Numbers of a request, reply or record are doubles, packed into one string; so nothing is rounded.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from limiters.errors import Sendable
from limiters.leases._coordinator.certainty import agrees
from limiters.leases._coordinator.shares import Filling, Level
from limiters.leases._coordinator.state import (
    BoundPermit,
    BoundState,
    Holding,
    Limit,
    Ramp,
    Record,
    Registry,
    RoundSums,
    Waiter,
)
from limiters.leases._format import (
    CHANGE,
    CHANGE_BOUND,
    CHECK_LENGTH,
    FORMAT,
    HEADER,
    HEADER_BOUND,
    MAX_BOUNDS,
    MAX_FORMAT,
    MAX_WHOLE,
    NEVER,
    NUMBERS,
    RANGES,
    RECORD,
    RECORD_BOUND,
    RECORD_PREFIX,
    REGISTRY,
    REPLY,
    REPLY_BOUND,
    REQUEST,
    REQUEST_BOUND,
    SALT,
    SCANNED,
    SCANNED_BOUND,
    UNITS,
    Field,
    FieldKind,
    Fields,
    numbers_of,
    texts_of,
)
from limiters.leases._ledger import Ledger
from limiters.leases._messages import (
    BoundReply,
    BoundTerms,
    Entries,
    Reply,
    Request,
    Terms,
    as_bytes,
    fault_of_bound,
    value_of,
    value_of_bound,
)
from limiters.leases._messages import Kind as ReplyKind
from limiters.leases._terms_change import LimitChange

_PREFIX = RECORD_PREFIX.encode()
_WAITER = struct.Struct("<5dI")


UNREADABLE = (ValueError, OverflowError, LookupError, TypeError, struct.error)
"""What `reply_of` raises for something that is no reply."""


class FormatError(Sendable, ValueError):
    """What is stored is of another format, which `stored` numbers, or cannot be read."""

    def __init__(self, message: str, stored: int) -> None:
        self.stored = stored
        super().__init__(message)


# What an instance sends and receives.


def arguments_of(request: Request) -> list[bytes]:
    """The arguments of limit_sync.lua, after the name of the limit."""
    bounds = [
        {one.name: value_of_bound(terms, said, one) for one in REQUEST_BOUND}
        for terms, said in zip(request.terms.bounds, request.bounds, strict=True)
    ]
    texts = [_text_of(value_of(request, one), one.kind) for one in texts_of(REQUEST)]
    lists = [_packed_pairs(bound[one.name] for bound in bounds) for one in texts_of(REQUEST_BOUND)]
    own = [value_of(request, one) for one in numbers_of(REQUEST)]
    return [*texts, *lists, _REQUEST.write(own, bounds)]


def change_of(change: LimitChange) -> list[bytes]:
    """The arguments of limit_set.lua that say what is changed."""
    bounds = [
        {one.name: getattr(bound, one.name) for one in CHANGE_BOUND} for bound in change.bounds
    ]
    own = [getattr(change, one.name) for one in numbers_of(CHANGE)]
    return [as_bytes(change.layout), _CHANGE.write(own, bounds)]


def _text_of(value: Any, kind: FieldKind) -> bytes:
    return as_bytes(value) if kind is FieldKind.TEXT else _packed(value)


def _packed_pairs(lists: Iterable[Entries]) -> bytes:
    return _packed([number for pairs in lists for pair in pairs for number in pair])


def reply_of(answer: Sequence[Any]) -> Reply:
    """What limit_sync.lua answers. One of UNREADABLE if it cannot be that."""
    given = dict(zip(_REPLY_TEXTS, map(raw, answer), strict=False))
    value, bounds = _REPLY.read(raw(answer[len(_REPLY_TEXTS)]))
    kind = ReplyKind(given["kind"].decode())
    of_terms = {name: value.pop(name) for name in _TERMS}
    reply = Reply(
        kind,
        format=value.pop("format"),
        seq=value.pop("seq"),
        server=as_text(given["server"]),
        now=value.pop("now"),
        nonce=as_text(given["nonce"]),
    )
    if kind not in (ReplyKind.REFUSED, ReplyKind.ANSWER):
        return reply
    terms = Terms(
        tuple(BoundTerms(**{name: one.pop(name) for name in _BOUND_TERMS}) for one in bounds),
        layout=as_text(given["layout"]),
        **of_terms,
    )
    _check_terms(terms)
    reply = replace(reply, terms=terms)
    if kind is ReplyKind.REFUSED:
        return reply
    for one in terms.bounds:
        _checked(_CAPACITY, one.in_force)
    lists = _lists(given["given"], [one.pop("given") for one in bounds])
    for entries, rest in zip(lists, bounds, strict=True):
        if entries and not rest["units"]:
            raise ValueError("spending came along with nothing")
        for _, cost in entries:
            _checked(_COST, cost)
    parts = tuple(
        BoundReply(given=entries, **rest) for entries, rest in zip(lists, bounds, strict=True)
    )
    return replace(reply, cause=as_text(given["cause"]), bounds=parts, **value)


def _check_terms(terms: Terms) -> None:
    if not terms.bounds:
        raise ValueError("it has no bounds")
    for name, one in _OF_EVERY_LIMIT.items():
        _checked(one, getattr(terms, name))
    for bound in terms.bounds:
        for name, one in _OF_EVERY_BOUND.items():
            _checked(one, getattr(bound, name))
        if fault_of_bound(bound):
            raise ValueError(f"no bound has this {fault_of_bound(bound)}")


_REPLY_TEXTS = tuple(field.name for field in (*texts_of(REPLY), *texts_of(REPLY_BOUND)))
_TERMS = ("factor", "lease", "version", "served")
_BOUND_TERMS = ("capacity", "period", "lasting", "slots", "in_force", "rising")
_OF_EVERY_LIMIT = {one.name: one for one in HEADER if one.name in ("factor", "lease")}
_OF_EVERY_BOUND = {
    one.name: one for one in HEADER_BOUND if one.name in ("capacity", "period", "lasting")
}
_CAPACITY = _OF_EVERY_BOUND["capacity"]
_COST = Field("a cost", FieldKind.FLOAT, *RANGES["cost"])


# What is stored.


def limit_of(
    fields: Mapping[bytes, bytes],
    people: Mapping[bytes, bytes] | None = None,
    grants: Mapping[bytes, bytes] | None = None,
) -> Limit | None:
    """The limit that a hash keeps, with the labels of its instances and what came along with
    grants, if those are given; None if there is none. FormatError if it is not whole."""
    if not fields:
        return None
    try:
        limit = read_limit(fields, people or {}, grants or {})
        count = _HEADER.read(fields[b"header"][:-CHECK_LENGTH])[0]["instances"]
        if len(limit.records) != count or not agrees(limit):
            raise ValueError("its parts do not add up")
    except (LookupError, struct.error, ValueError, ArithmeticError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"what is stored of the limit is damaged: {error}", FORMAT) from error
    return limit


def read_limit(
    fields: Mapping[bytes, bytes], people: Mapping[bytes, bytes], grants: Mapping[bytes, bytes]
) -> Limit:
    """The same, whether or not its parts add up."""
    value, parts = _HEADER.read(_whole_header(fields))
    if value.pop("format") != FORMAT:
        raise ValueError("the number of its format is another one")
    del value["instances"]
    ledgers = _lists(fields[b"ledger"], [one.pop("ledger") for one in parts])
    returning = _lists(fields[b"returning"], [one.pop("returning") for one in parts])
    lots = _lists(fields[b"lots"], [one.pop("lots") for one in parts])
    bounds = [_bound(*one) for one in zip(parts, ledgers, returning, lots, strict=True)]
    terms = Terms(
        tuple(one.terms for one in bounds),
        layout=as_text(fields[b"layout"]),
        **{name: value.pop(name) for name in _TERMS},
    )
    if not bounds or not terms.are_divisible:
        raise ValueError("it has no bounds, or too many partitions")
    return Limit(
        server=as_text(fields[b"server"]),
        nonce=as_text(fields[b"nonce"]),
        cause=as_text(fields[b"cause"]),
        terms=terms,
        bounds=bounds,
        queue=list(_queue(fields[b"queue"], len(bounds))),
        records={
            as_text(name[len(_PREFIX) :]): _record(name, packed, len(bounds), people, grants)
            for name, packed in fields.items()
            if name.startswith(_PREFIX)
        },
        **value,
    )


def _bound(value: dict[str, Any], ledger: Entries, returning: Entries, lots: Entries) -> BoundState:
    terms = BoundTerms(**{name: value.pop(name) for name in _BOUND_TERMS[:4]})
    if fault_of_bound(terms):
        raise ValueError(f"no bound has this {fault_of_bound(terms)}")
    if value["whole"] < 1 or (not terms.slots and (value["whole"] != UNITS or value["pool"] < 0)):
        raise ValueError("no bound has so many units")
    return BoundState(
        terms,
        ramp=Ramp(*(value.pop(f"ramp_{name}") for name in ("from", "at", "rate"))),
        ledger=_ledger(ledger),
        returning=[(at, int(units)) for at, units in returning],
        fair=Level(value.pop("fair_units"), value.pop("fair_weight")),
        level=Level(value.pop("level_units"), value.pop("level_weight")),
        sums=RoundSums(
            fair=Filling(*(value.pop(f"sum_fair_{name}") for name in _FILLING)),
            level=Filling(*(value.pop(f"sum_level_{name}") for name in _FILLING)),
            lots={lot: int(count) for lot, count in lots},
            **{name: value.pop(f"sum_{name}") for name in _SUMS},
        ),
        **value,
    )


def header_checksum(packed: bytes, fields: Mapping[bytes, bytes]) -> bytes:
    """The checksum of a header and of the texts beside it, but for the number of the format."""
    return checksum(b"header", b"\0".join([packed[8:], *(fields[name] for name in _TEXTS)]))


_TEXTS = (b"server", b"nonce", b"cause", b"layout", b"ledger", b"returning", b"lots", b"queue")
_FILLING = ("used", "limited", "weight")
_SUMS = (
    *("needs", "shares", "aside", "satisfied", "rights", "lacking", "unserved"),
    *("rest", "turns", "taken", "kept", "scaled"),
)


def _whole_header(fields: Mapping[bytes, bytes]) -> bytes:
    """The numbers of the header. ValueError if it is damaged, or a text beside it; FormatError if
    it is of another format."""
    header = fields.get(b"header", b"")
    packed, ends = header[:-CHECK_LENGTH], header[-CHECK_LENGTH:]
    if all(name in fields for name in _TEXTS) and ends == header_checksum(packed, fields):
        return packed
    stored = struct.unpack_from("<d", header)[0] if len(header) >= 8 else 0.0
    if stored != FORMAT and 0 < stored <= MAX_FORMAT and stored.is_integer():
        raise FormatError(f"the limit is stored in format {stored:.0f}, not {FORMAT}", int(stored))
    raise ValueError("its header, or a text beside that, is not as it was written")


def _record(
    name: bytes,
    packed: bytes,
    bounds: int,
    people: Mapping[bytes, bytes],
    grants: Mapping[bytes, bytes],
) -> Record:
    own, parts = _read_record(_unsealed(name, packed), bounds)
    holdings = [_holding(one) for one in parts]
    record = Record(holdings, label=as_text(people.get(name, b"")), **own)
    with contextlib.suppress(ValueError, struct.error):  # which count as lost
        text = _unsealed(name, grants.get(name, b""))
        born, seq, *counts = map(_whole, floats_of(text[: 8 * (2 + bounds)]))
        if (born, seq) == (record.born, record.seq):
            for one, given in zip(holdings, _lists(text[8 * (2 + bounds) :], counts), strict=True):
                if one.granted:
                    one.given = _ledger(given)
    return record


def _read_record(packed: bytes, bounds: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is scanned comes first: of the instance, then of each bound; then the rest of both."""
    own, parts, position = dict[str, Any](), [dict[str, Any]() for _ in range(bounds)], 0
    for of_instance, of_bound in (
        (SCANNED, SCANNED_BOUND),
        (RECORD[len(SCANNED) :], RECORD_BOUND[len(SCANNED_BOUND) :]),
    ):
        for fields, into in ((of_instance, own), *((of_bound, one) for one in parts)):
            end = position + 8 * len(fields)
            into.update(_read(fields, floats_of(packed[position:end])))
            position = end
    if position != len(packed):
        raise ValueError("its length is another one")
    return own, parts


def _holding(value: dict[str, Any]) -> Holding:
    permit = BoundPermit(*(value.pop(f"permit_{one}") for one in ("at", "cost", "stayed", "wave")))
    return Holding(permit=permit, **value)


def _lists(packed: bytes, counts: Sequence[int]) -> list[Entries]:
    """The pairs of each bound, of which there are so many. ValueError if these are not all."""
    if 16 * sum(counts) != len(packed):
        raise ValueError("the number of its entries is another one")
    lists, position = [], 0
    for count in counts:
        lists.append(entries_of(packed[position : position + 16 * count]))
        position += 16 * count
    return lists


def _queue(packed: bytes, bounds: int) -> Iterator[Waiter]:
    position = 0
    while position < len(packed):
        later, turn, since, silent, fair, length = _WAITER.unpack_from(packed, position)
        position += _WAITER.size
        asks = floats_of(packed[position : position + 8 * bounds])
        position += 8 * bounds
        name = as_text(packed[position : position + length])
        position += length
        yield Waiter(
            bool(_finite(later)),
            _finite(turn),
            _whole(since),
            name,
            [_finite(ask) for ask in asks],
            _whole(silent),
            _whole(fair),
        )


def registry_of(fields: Mapping[bytes, bytes]) -> Registry | None:
    """What a server knows of all limits; None if it knows nothing."""
    if not fields:
        return None
    packed, ends = fields[b"header"][:-CHECK_LENGTH], fields[b"header"][-CHECK_LENGTH:]
    if ends != checksum(b"registry", fields[b"server"] + b"\0" + packed):
        raise ValueError("it is not as it was written")
    value, _ = _REGISTRY.read(packed)
    if len(fields) != value["names"] + 2:
        raise ValueError("a name is lost")
    told = {
        as_text(name[len(_PREFIX) :]): _unsealed(name, text).split()
        for name, text in fields.items()
        if name.startswith(_PREFIX)
    }
    return Registry(
        as_text(fields[b"server"]),
        value["since"],
        {name: int(float(until)) for name, (until, _) in told.items()},
        {name: int(span) for name, (_, span) in told.items() if int(span)},
        None if value["now"] == NEVER else value["now"],
        value["skew"],
    )


# Checksums, of what is stored under a name; `check` in _format.py is the same in Lua.


def checksum(name: bytes, text: bytes) -> bytes:
    """The checksum of what is stored under a name."""
    whole = SALT.encode() + name + b"\0" + text
    return hashlib.sha1(whole, usedforsecurity=False).hexdigest()[:CHECK_LENGTH].encode()


def _unsealed(name: bytes, text: bytes) -> bytes:
    """The text without its checksum; ValueError if that is another one."""
    whole = text[:-CHECK_LENGTH]
    if checksum(name, whole) != text[-CHECK_LENGTH:]:
        raise ValueError(f"{as_text(name)!r} is not as it was written")
    return whole


# Numbers.


def floats_of(packed: bytes) -> tuple[float, ...]:
    """The doubles in `packed`."""
    return struct.unpack(f"<{len(packed) // 8}d", packed)


def floats_in(packed: bytes) -> tuple[float, ...] | None:
    """The same; None if one is not finite, or a part of one is missing."""
    if len(packed) % 8:
        return None
    values = floats_of(packed)
    return values if all(map(math.isfinite, values)) else None


def entries_of(packed: bytes) -> Entries:
    """The pairs in `packed`; ValueError if one cannot be."""
    values = floats_of(packed)
    return tuple(
        (_whole(at), _finite(cost)) for at, cost in zip(values[::2], values[1::2], strict=True)
    )


def _ledger(entries: Entries) -> Ledger:
    ledger = Ledger()
    ledger.entries = list(entries)  # as they are, also those of no cost
    return ledger


_ANY = {kind: Field("a number", kind, *RANGES[kind.value]) for kind in NUMBERS}


def _whole(value: float) -> int:
    return int(_checked(_ANY[FieldKind.WHOLE], value))


def _finite(value: float) -> float:
    return _checked(_ANY[FieldKind.FLOAT], value)


def _checked(field: Field, value: float) -> float:
    if not field.fits(value):
        raise ValueError(f"{field.name} is {value!r}")
    return value


_AS: Mapping[FieldKind, Callable[[float], Any]] = {
    FieldKind.WHOLE: int,
    FieldKind.FLOAT: float,
    FieldKind.FLAG: bool,
}


class _Numbers:
    """The numbers among declared fields, packed into one string: those of the whole, then those of
    each bound, in which the place of a list has the number of its pairs."""

    def __init__(self, declared: Fields, of_bound: Fields = ()) -> None:
        self._own, self._of_bound = numbers_of(declared), of_bound

    def write(self, own: Sequence[float], bounds: Sequence[Mapping[str, Any]]) -> bytes:
        """All of them, as one string."""
        values = [float(one) for one in own]
        for bound in bounds:
            values += [_number(one, bound[one.name]) for one in self._of_bound]
        return _packed(values)

    def read(self, packed: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Each by its name."""
        values, length, width = floats_of(packed), len(self._own), len(self._of_bound)
        count = (len(values) - length) // max(1, width)
        if len(values) != length + count * width or len(packed) % 8 or count > MAX_BOUNDS:
            raise ValueError("its length is another one")
        starts = range(length, len(values), width) if width else ()
        return _read(self._own, values[:length]), [
            _read(self._of_bound, values[start : start + width]) for start in starts
        ]


def _number(field: Field, value: Any) -> float:
    return float(len(value) if field.kind is FieldKind.PAIRS else value)


def _read(fields: Fields, values: Sequence[float]) -> dict[str, Any]:
    return {
        field.name: _AS.get(field.kind, _count)(_checked(field, value))
        for field, value in zip(fields, values, strict=True)
    }


def _count(value: float) -> int:
    if not (0 <= value <= MAX_WHOLE and value.is_integer()):
        raise ValueError(f"{value!r} is no number of entries")
    return int(value)


_REQUEST, _CHANGE = _Numbers(REQUEST, REQUEST_BOUND), _Numbers(CHANGE, CHANGE_BOUND)
_REPLY, _HEADER = _Numbers(REPLY, REPLY_BOUND), _Numbers(HEADER, HEADER_BOUND)
_REGISTRY = _Numbers(REGISTRY)


def _packed(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


# Text, whatever a client makes of it.


def raw(value: Any) -> bytes:
    """What a server sent, also if the client, which may be handed in, decodes it."""
    return value if isinstance(value, bytes) else as_bytes(str(value))


def pairs(flat: Any) -> dict[bytes, bytes]:
    """The fields of a hash, from a list of names and values."""
    texts = [raw(one) for one in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def as_text(value: bytes) -> str:
    """As names and labels are read."""
    return value.decode("utf-8", "surrogateescape")
