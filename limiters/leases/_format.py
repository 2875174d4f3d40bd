"""The format of a shared limit: its constants, and the fields of what is sent and stored.

Declared once, for the coordinator in Python and for its twin in Lua: `lua_prelude` writes the
same constants and fields as Lua, in front of each script. Durations are whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from limiters._guard import GUARD_MS

FORMAT = 2
"""Written into every header, request and reply. Other formats are refused, never guessed."""

UNITS = 2**32
"""A lease is an amount: so many units of the whole limit, whatever its capacity."""

SLICES = 100
"""Spending is recorded in slices of a period, rounded up to the end of the slice."""

FLOAT_ERROR = 1e-8
"""The share of the capacity that comparisons forgive for rounding."""

DRIFT = 0.001
"""The share by which any clock may run faster or slower than true time."""

TOLERANCE_MS = 20
"""How much later than an instance can confirm the server's clock may be and is still believed."""

MAX_TRIES = 2
"""How often a request is sent back because the server's clock is ahead of what it confirms."""

WEIGHT_SCALE = 1000
MAX_WEIGHT = 1000
"""Weights are stored as whole thousandths, from one thousandth to this."""

WHOLE_BATCHES = 50
"""A share worth fewer batches than this is rounded down to whole ones; permits use the rest."""

FEW_BATCHES = 2
"""Whoever needs more than its fair share, and has one of fewer batches than this in a period, lives
on permits alone: a share of whole batches would leave up to half of it unused."""

ROUNDED_UP = 2 / 3
"""Added to what fair shares are worth in batches before that is rounded down to whole ones. Less
would leave large batches too little of their fair share, more the shares of others."""

QUEUE_LENGTH = 32
"""How many of those who wait for a permit the header keeps."""

INSTANCES_PER_MS = 10
"""Shares are computed again when they are older than a millisecond for so many instances."""

MAX_ROUNDS = 64
"""How many rounds the computation of fair shares takes at most."""

CREDIT_PERIODS = 2
"""For so many periods at most, an instance that did not use its turns is compensated."""

LEAST_PACE = 0.75
"""The clock of turns goes at least so fast, so that nobody waits for long if others are late."""

MIN_STAYED = 1e-6
"""When less than this share of the pool has stayed since a permit, it is no longer corrected."""

SILENT_MS = 100
"""How long after its second missed sync an instance loses its place in the queue."""

REGISTRY_SPANS = 10
"""How many spans ahead the registry says that something of a limit may be out."""

FREE_SHARE = 8
"""While nobody is short and the pool holds this part of the limit, nothing has to be released."""

MAX_WHOLE = 2**53
"""No whole number that is sent or stored is larger, or as negative: what is, was damaged."""

MAX_PARTITIONS = 10_000
"""Into how many partitions people may see a limit divided."""

NEVER = -(10**15)
"""A time before all others."""

DEFAULT_LEASE_MS = 5000

DEFAULT_PERIOD_MS = 1000

DEFAULT_SPAN = DEFAULT_LEASE_MS + DEFAULT_PERIOD_MS + GUARD_MS
"""How long a server without certainty waits at least: the span of the default lease and period."""

CHUNK = 200
"""How many doubles a script packs at once: a list of any length would overflow its stack."""

RECORD_PREFIX = "="
"""In front of the name of an instance, as a field of a hash."""

_CONSTANTS = (
    "FORMAT",
    "UNITS",
    "SLICES",
    "GUARD_MS",
    "FLOAT_ERROR",
    "MAX_TRIES",
    "WHOLE_BATCHES",
    "FEW_BATCHES",
    "ROUNDED_UP",
    "QUEUE_LENGTH",
    "INSTANCES_PER_MS",
    "MAX_ROUNDS",
    "CREDIT_PERIODS",
    "LEAST_PACE",
    "MIN_STAYED",
    "SILENT_MS",
    "REGISTRY_SPANS",
    "FREE_SHARE",
    "MAX_WHOLE",
    "MAX_PARTITIONS",
    "NEVER",
    "DEFAULT_SPAN",
    "CHUNK",
    "RECORD_PREFIX",
)


class FieldKind(Enum):
    """What a field is. Numbers are doubles, and those of one message or record are packed into one
    string, in the order of their declaration."""

    WHOLE = "n"
    FLOAT = "f"
    FLAG = "b"
    TEXT = "s"
    PAIRS = "p"
    """Pairs of a whole number and a float, packed."""
    FLOATS = "d"
    """Floats, packed."""


NUMBERS = (FieldKind.WHOLE, FieldKind.FLOAT, FieldKind.FLAG)


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name in both languages, and what it is."""

    name: str
    kind: FieldKind


Fields = tuple[Field, ...]


def _fields(text: str) -> Fields:
    return tuple(
        Field(name, FieldKind(kind or "n"))
        for name, _, kind in (one.partition(":") for one in text.split())
    )


def numbers_of(fields: Fields) -> Fields:
    """Those that are packed together."""
    return tuple(field for field in fields if field.kind in NUMBERS)


def texts_of(fields: Fields) -> Fields:
    """Those that are strings of their own: they come first, then the numbers."""
    return tuple(field for field in fields if field.kind not in NUMBERS)


REQUEST = _fields(
    "format instance:s seq born server:s age nonce:s ended:b confirmed tries "
    "capacity:f factor:f period lease version served:b in_force:f rising:f "
    "units left released history:p stamped:p need:f by_permit:f ask:f gathers:b waited valid "
    "piece:f weight interval spent:f reserved:f label:s leaving:b permit permit_spent:p totals:d"
)
"""What an instance sends. `history` and `permit_spent` are pairs of age and cost, `stamped` and
what is granted pairs of time stamp and cost."""

REPLY = _fields(
    "kind:s format seq server:s now nonce:s created:b "
    "capacity:f factor:f period lease version served:b in_force:f rising:f "
    "certain:b uncertain cause:s skew "
    "born units given:p keep share short:b permit permit_cost:f back waiting ahead evicted:b "
    "counted:b instances needs free"
)

SCANNED = _fields("units gone need weight ask:f ask_since gathers:b piece:f turn:f seen interval")
"""What a pass over all records reads of each."""

RECORD = SCANNED + _fields(
    "seq born until fair:f permit permit_at permit_cost:f permit_stayed:f permit_wave "
    "spent:f reserved:f evicted:b counted:b share granted"
)
"""What is stored of an instance, in one string."""

HEADER = _fields(
    "format now skew since proven not_before last interval doubted:b deleted:b "
    "capacity:f factor:f period lease version served:b ramp_from:f ramp_at ramp_rate:f "
    "pool stayed:f wave next_id instances kept_until due "
    "shares_at fair_units fair_weight level_units level_weight needs spare:f short_since behind:f"
)
"""What is stored of the limit itself, in one string; beside it are texts and lists."""

REGISTRY = _fields("format since now skew")
"""What one server process knows of all limits, beside a time for each name."""


def lua_prelude() -> str:
    """The constants, and functions that read and write what is sent and stored, for the scripts."""
    lines = [f"local {name} = {globals()[name]!r}" for name in _CONSTANTS]
    lines += [
        "local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max",
        "local byte, sub = string.byte, string.sub",
        "-- Whether a value, which may be nil, can be a whole number; and whether it is finite.",
        f"local function is_whole(n) return n and {_rule({'n': FieldKind.WHOLE})} end",
        f"local function is_finite(n) return n and {_rule({'n': FieldKind.FLOAT})} end",
        _scanner(),
        _reader("read_record", RECORD),
        _writer("write_record", RECORD),
        _reader("read_header", HEADER),
        _writer("write_header", HEADER),
        _reader("read_registry", REGISTRY),
        _writer("write_registry", REGISTRY),
        _reader("read_request", REQUEST),
        _writer("write_reply", REPLY),
    ]
    return "\n".join(lines) + "\n"


def _in_lua(field: Field) -> str:
    """As a field of a Lua table; `until` is a keyword there."""
    return f"t.{field.name}_" if field.name == "until" else f"t.{field.name}"


def _rule(kinds: Mapping[str, FieldKind]) -> str:
    """A condition in Lua: whether these variables can be numbers of these kinds. Whole ones are
    within measure, others are finite; written so that NaN, which is in no order with any number,
    is refused as well. `_whole` and `_finite` in _codec.py are the same."""
    return " and ".join(
        f"{name} >= {-MAX_WHOLE} and {name} <= {MAX_WHOLE}"
        if kind is FieldKind.WHOLE
        else f"{name} - {name} == 0"
        for name, kind in kinds.items()
    )


def _scanner() -> str:
    """A Lua function that returns what a pass reads of a packed record; nil if its length is
    another one, or a number cannot be one."""
    names = {f"{field.name}_": field.kind for field in SCANNED}
    listed = ", ".join(names)
    return "\n".join(
        [
            "local function scanned(packed)",
            f"  if #packed ~= {8 * len(RECORD)} then return nil end",
            f"  local {listed} = struct.unpack('<{'d' * len(SCANNED)}', packed)",
            f"  if not ({_rule(names)}) then return nil end",
            f"  return {listed}",
            "end",
        ]
    )


def _reader(name: str, fields: Fields) -> str:
    """A Lua function that makes a table of fields: of texts, and the numbers packed. It returns nil
    if their length is another one, and nil and true if a number cannot be one."""
    texts, numbers = texts_of(fields), numbers_of(fields)
    targets = ", ".join(_in_lua(field) for field in numbers)
    flags = [f"  t.{one.name} = t.{one.name} ~= 0" for one in numbers if one.kind is FieldKind.FLAG]
    arguments = ", ".join([*(f"{field.name}_" for field in texts), "packed"])
    return "\n".join(
        [
            f"local function {name}({arguments})",
            f"  if not packed or #packed ~= {8 * len(numbers)} then return nil end",
            "  local t = {}",
            *(f"  t.{field.name} = {field.name}_" for field in texts),
            f"  {targets} = struct.unpack('<{'d' * len(numbers)}', packed)",
            f"  if not ({_rule({_in_lua(one): one.kind for one in numbers})}) then",
            "    return nil, true",
            "  end",
            *flags,
            "  return t",
            "end",
        ]
    )


def _writer(name: str, fields: Fields) -> str:
    """A Lua function that returns the texts of a table, in a list, and the numbers packed; what is
    missing is empty."""
    texts, numbers = texts_of(fields), numbers_of(fields)
    values = ", ".join(
        f"{_in_lua(field)} and 1 or 0" if field.kind is FieldKind.FLAG else f"{_in_lua(field)} or 0"
        for field in numbers
    )
    packed = f"struct.pack('<{'d' * len(numbers)}', {values})"
    listed = ", ".join([*(f"t.{field.name} or ''" for field in texts), packed])
    answer = f"{{ {listed} }}" if texts else packed
    return f"local function {name}(t)\n  return {answer}\nend"
