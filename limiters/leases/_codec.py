"""How requests, replies and what is stored are written, by the declarations in `_format`.

Numbers of a request, reply or record are doubles, packed into one string; so nothing is rounded.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from limiters.errors import Sendable
from limiters.leases._coordinator.certainty import agrees
from limiters.leases._coordinator.shares import Level
from limiters.leases._coordinator.state import Limit, Permit, Ramp, Record, Registry, Waiter
from limiters.leases._format import (
    CHECK_LENGTH,
    FORMAT,
    HEADER,
    MAX_FORMAT,
    NEVER,
    NUMBERS,
    RANGES,
    RECORD,
    RECORD_PREFIX,
    REGISTRY,
    REPLY,
    REQUEST,
    SALT,
    Field,
    FieldKind,
    Fields,
    numbers_of,
    texts_of,
)
from limiters.leases._ledger import Ledger
from limiters.leases._messages import Entries, Reply, Request, Terms, as_bytes, value_of
from limiters.leases._messages import Kind as ReplyKind

_PREFIX = RECORD_PREFIX.encode()
_WAITER = struct.Struct("<6dI")


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
    texts = [_text_of(value_of(request, field), field.kind) for field in _REQUEST_TEXTS]
    return [*texts, _packed([float(value_of(request, field)) for field in _REQUEST_NUMBERS])]


_REQUEST_TEXTS, _REQUEST_NUMBERS = texts_of(REQUEST), numbers_of(REQUEST)


def _text_of(value: Any, kind: FieldKind) -> bytes:
    if kind is FieldKind.TEXT:
        return as_bytes(value)
    if kind is FieldKind.PAIRS:
        return _packed([number for pair in value for number in pair])
    return _packed(value)


def reply_of(answer: Sequence[Any]) -> Reply:
    """What limit_sync.lua answers. One of UNREADABLE if it cannot be that."""
    given = dict(zip(_REPLY_TEXTS, map(raw, answer), strict=False))
    value = _REPLY.read(raw(answer[len(_REPLY_TEXTS)]))
    kind = ReplyKind(given["kind"].decode())
    terms = Terms(**{name: value.pop(name) for name in (*_TERMS, "in_force", "rising")})
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
    for one in _OF_EVERY_LIMIT:
        _checked(one, getattr(terms, one.name))
    reply = replace(reply, terms=terms)
    if kind is ReplyKind.REFUSED:
        return reply
    entries = entries_of(given["given"])
    _checked(_OF_EVERY_LIMIT[0], terms.in_force)
    if entries and not value["units"]:
        raise ValueError("spending came along with nothing")
    for _, cost in entries:
        _checked(_COST, cost)
    return replace(reply, cause=as_text(given["cause"]), given=entries, **value)


_REPLY_TEXTS = tuple(field.name for field in texts_of(REPLY))
_TERMS = ("capacity", "factor", "period", "lease", "version", "served")
_OF_EVERY_LIMIT = tuple(
    one for one in HEADER if one.name in ("capacity", "factor", "period", "lease")
)
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
        count = _HEADER.read(fields[b"header"][:-CHECK_LENGTH])["instances"]
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
    value = _HEADER.read(_whole_header(fields))
    if value.pop("format") != FORMAT:
        raise ValueError("the number of its format is another one")
    del value["instances"]
    terms = Terms(**{name: value.pop(name) for name in _TERMS})
    if not terms.are_divisible:
        raise ValueError("it has too many partitions")
    return Limit(
        server=as_text(fields[b"server"]),
        nonce=as_text(fields[b"nonce"]),
        cause=as_text(fields[b"cause"]),
        terms=terms,
        ramp=Ramp(*(value.pop(name) for name in ("ramp_from", "ramp_at", "ramp_rate"))),
        fair=Level(value.pop("fair_units"), value.pop("fair_weight")),
        level=Level(value.pop("level_units"), value.pop("level_weight")),
        ledger=_ledger(entries_of(fields[b"ledger"])),
        returning=[(at, int(units)) for at, units in entries_of(fields[b"returning"])],
        queue=list(_queue(fields[b"queue"])),
        records={
            as_text(name[len(_PREFIX) :]): _record(name, packed, people, grants)
            for name, packed in fields.items()
            if name.startswith(_PREFIX)
        },
        **value,
    )


def header_checksum(packed: bytes, fields: Mapping[bytes, bytes]) -> bytes:
    """The checksum of a header and of the texts beside it, but for the number of the format."""
    return checksum(b"header", b"\0".join([packed[8:], *(fields[name] for name in _TEXTS)]))


_TEXTS = (b"server", b"nonce", b"cause", b"ledger", b"returning", b"queue")


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
    name: bytes, packed: bytes, people: Mapping[bytes, bytes], grants: Mapping[bytes, bytes]
) -> Record:
    value = _RECORD.read(_unsealed(name, packed))
    permit = Permit(
        value.pop("permit"),
        *(value.pop(f"permit_{one}") for one in ("at", "cost", "stayed", "wave")),
    )
    record = Record(permit=permit, label=as_text(people.get(name, b"")), **value)
    given: Entries = ()
    with contextlib.suppress(ValueError, struct.error):  # which count as lost
        given = entries_of(_unsealed(name, grants.get(name, b"")))
    if record.granted and given[:1] == ((record.born, record.seq),):
        record.given = _ledger(given[1:])
    return record


def _queue(packed: bytes) -> Iterator[Waiter]:
    position = 0
    while position < len(packed):
        later, turn, since, ask, silent, fair, length = _WAITER.unpack_from(packed, position)
        position += _WAITER.size
        name = as_text(packed[position : position + length])
        position += length
        yield Waiter(
            bool(_finite(later)),
            _finite(turn),
            _whole(since),
            name,
            _finite(ask),
            _whole(silent),
            _finite(fair),
        )


def registry_of(fields: Mapping[bytes, bytes]) -> Registry | None:
    """What a server knows of all limits; None if it knows nothing."""
    if not fields:
        return None
    packed, ends = fields[b"header"][:-CHECK_LENGTH], fields[b"header"][-CHECK_LENGTH:]
    if ends != checksum(b"registry", fields[b"server"] + b"\0" + packed):
        raise ValueError("it is not as it was written")
    value = _REGISTRY.read(packed)
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
    """The numbers among declared fields, packed into one string."""

    def __init__(self, declared: Fields) -> None:
        numbers = numbers_of(declared)
        self._layout = struct.Struct(f"<{len(numbers)}d")
        self._fields = [(field, _AS[field.kind]) for field in numbers]

    def read(self, packed: bytes) -> dict[str, Any]:
        """Each by its name."""
        values = self._layout.unpack(packed)
        return {
            field.name: kind(_checked(field, value))
            for (field, kind), value in zip(self._fields, values, strict=True)
        }


_REPLY, _HEADER = _Numbers(REPLY), _Numbers(HEADER)
_RECORD, _REGISTRY = _Numbers(RECORD), _Numbers(REGISTRY)


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
