"""The format of a shared limit: its constants, and the fields of what is sent and stored.

Declared once, for the coordinator in Python and for its twin in Lua: `lua_prelude` writes the
same constants and fields as Lua, in front of each script. Durations are whole milliseconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from limiters._guard import GUARD_MS
from limiters._support.validation import MAX_AMOUNT

FORMAT = 4
"""Written into every header, request and reply. Other formats are refused, never guessed."""

MAX_FORMAT = 1_000
"""A larger number is none of a format."""

UNITS = 2**32
"""A lease is an amount: so many units of the whole rate, whatever its capacity. Of slots, a unit is
a slot: there are as many as may be in flight, and no more than this."""

MAX_BOUNDS = 16
"""How many bounds a limit has at most: windows of its rates, and numbers of calls in flight."""

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

FEW_A_SECOND, FEW_WITHOUT_SHARE = 4, 1.5
"""Where a limit has several windows, so many batches in each second of one are few, up to
WHOLE_BATCHES; and so many times as many for an instance that holds no share, so that it does not
change with each batch that costs more or less. Batches differ in what they cost of each window, and
a batch needs room in all of them at once: of shares of few batches, much is unused in one while
another one is full."""

EASED = 0.8
"""This part of what is left of a bound that is not short, while another one is, may be held by
those that are short of the other: their batches differ."""

ROUNDED_UP = 2 / 3
"""Added to what fair shares are worth in batches before that is rounded down to whole ones. Less
would leave large batches too little of their fair share, more the shares of others."""

QUEUE_LENGTH = 32
"""How many of those who wait for a permit the header keeps."""

VISITS_PER_MS, LEAST_VISITS, MOST_VISITS = 8, 4, 64
"""How many instances a request visits for each millisecond since the last one, so that the limit is
divided again; at least, and at most. So what a request costs does not grow with their number."""

CALM = 8
"""A level that moves by more than this part of it is not where it is going to stay."""

SHAPE = 2**19
"""In parts of this, rounded up, the ratio of a need to the dominant one of its instance is kept: so
the sum of these by weight, over as many instances as there may be, is exact."""

USE_PARTS = 2**39
"""In so many parts of a whole bound its use is counted: so the sum of these, over as many instances
as there may be, is exact."""

EPOCH_INTERVALS = 8
"""For so many sync intervals an instance has a right to one of the slots that are left over."""

PLACES = 2**16
"""How many places there are among those who take turns with these slots."""

GOLDEN_PLACES = 40_503
"""The golden part of these: numbers in sequence, times this, are spread evenly over the places."""

LOTS, LOT_BUCKETS = 32, 64
"""Into how many parts a fraction of a slot is divided; and how many parts are counted: more, where
slots are left over because others need less."""

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

MIN_CAPACITY = 1e-100
"""Far above the smallest float, so that a unit is worth something."""

MAX_PERIOD_MS = 86_400_000
"""A day: nobody waits for longer."""

MAX_LASTING_MS = 3 * MAX_PERIOD_MS
"""For how long a charge can count at most: a call of a day, a window of a day, and a guard."""

MIN_LEASE_MS, MAX_LEASE_MS = 200, 86_400_000
"""A shorter lease would end between two requests, however soon they follow."""

FEWEST_INTERVALS = 4
"""How many sync intervals a lease lasts at least (law C5 and the rest of them rely on it)."""

MAX_PERMIT_MS = 300
"""For how long a permit is asked for, at most."""

MAX_NAME, MAX_TEXT = 200, 1_000
"""How many bytes the name of an instance has at most, and any other text of a request."""

MAX_ENTRIES = 1_000
"""How many entries of spending a request has at most. Slices of a period are far fewer."""

BLOCK = 32
"""In blocks of so many names a limit keeps the order in which instances have arrived."""

BLOCK_PREFIX = "#"
"""In front of the number of a block, as a field of a hash."""

MAX_INSTANCES = 10_000
"""How many instances a limit has at most. Others are refused until one of these has left."""

MAX_NAMES = 100_000
"""How many names of limits the registry of a server has at most. Further limits do without it, as
in a cluster."""

MAX_TOTALS = 160
"""How many sums a request adds to at most."""

LATEST = 10**15
"""A time after all others: no turn comes later."""

CHECK_LENGTH = 16
"""How many letters a checksum has. What an accident leaves fits its own once in 2^64 times."""

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
    "MAX_FORMAT",
    "MAX_AMOUNT",
    "MIN_CAPACITY",
    "FEWEST_INTERVALS",
    "MAX_PERMIT_MS",
    "MAX_NAME",
    "MAX_TEXT",
    "MAX_ENTRIES",
    "BLOCK",
    "BLOCK_PREFIX",
    "MAX_INSTANCES",
    "MAX_NAMES",
    "MAX_TOTALS",
    "LATEST",
    "CHECK_LENGTH",
    "UNITS",
    "SLICES",
    "GUARD_MS",
    "FLOAT_ERROR",
    "MAX_TRIES",
    "WHOLE_BATCHES",
    "FEW_BATCHES",
    "FEW_A_SECOND",
    "FEW_WITHOUT_SHARE",
    "EASED",
    "ROUNDED_UP",
    "QUEUE_LENGTH",
    "VISITS_PER_MS",
    "LEAST_VISITS",
    "MOST_VISITS",
    "CALM",
    "SHAPE",
    "USE_PARTS",
    "EPOCH_INTERVALS",
    "PLACES",
    "GOLDEN_PLACES",
    "LOTS",
    "LOT_BUCKETS",
    "MAX_BOUNDS",
    "CREDIT_PERIODS",
    "LEAST_PACE",
    "MIN_STAYED",
    "SILENT_MS",
    "REGISTRY_SPANS",
    "FREE_SHARE",
    "MAX_WHOLE",
    "MAX_PARTITIONS",
    "NEVER",
    "DEFAULT_LEASE_MS",
    "DEFAULT_PERIOD_MS",
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


RANGES: Mapping[str, tuple[float, float]] = {
    "n": (-MAX_WHOLE, MAX_WHOLE),
    "f": (-math.inf, math.inf),
    "b": (-math.inf, math.inf),
    "count": (0, MAX_WHOLE),
    "units": (0, UNITS),
    "pool": (-UNITS, UNITS),
    "weight": (1, MAX_WEIGHT * WEIGHT_SCALE),
    "cost": (-MAX_AMOUNT, MAX_AMOUNT),
    "amount": (0, MAX_AMOUNT),
    "capacity": (MIN_CAPACITY, MAX_AMOUNT),
    "factor": (MIN_CAPACITY / MAX_PARTITIONS, MAX_AMOUNT),
    "period": (1, MAX_PERIOD_MS),
    "lasting": (1, MAX_LASTING_MS),
    "lease": (MIN_LEASE_MS, MAX_LEASE_MS),
    "stamp": (-LATEST, LATEST),
    "delay": (0, 2 * LATEST),
    "version": (0, MAX_WHOLE // 2),
}
"""From where to where a number may be, by the word for its kind. None may be infinite."""

_KINDS = {"capacity": "f", "factor": "f", "cost": "f", "amount": "f", "delay": "f"}
"""The kinds of those that are not whole."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name in both languages, and what it is."""

    name: str
    kind: FieldKind
    low: float = -math.inf
    high: float = math.inf

    def fits(self, value: float) -> bool:
        """Whether a number can be one of this field. `_rule` is the same in Lua."""
        if not (self.low <= value <= self.high and math.isfinite(value)):
            return False
        return self.kind is not FieldKind.WHOLE or value == math.floor(value)


Fields = tuple[Field, ...]


def _fields(text: str) -> Fields:
    return tuple(_field(*one.partition(":")[::2]) for one in text.split())


def _field(name: str, word: str) -> Field:
    word = word or "n"
    if word not in RANGES:
        return Field(name, FieldKind(word))
    kind = FieldKind(_KINDS.get(word, word if len(word) == 1 else "n"))
    return Field(name, kind, *RANGES[word])


def numbers_of(fields: Fields) -> Fields:
    """Those that are packed together."""
    return tuple(field for field in fields if field.kind in NUMBERS)


def texts_of(fields: Fields) -> Fields:
    """Those that are strings of their own: they come first, then the numbers."""
    return tuple(field for field in fields if field.kind not in NUMBERS)


REQUEST = _fields(
    "format instance:s seq:count born:count server:s age:count nonce:s ended:b confirmed "
    "tries:count factor:factor lease:lease layout:s version:version served:b "
    "left:count gathers:b waited:count valid:count weight:weight interval:count label:s leaving:b "
    "permit:count totals:d"
)
"""What an instance sends."""

REQUEST_BOUND = _fields(
    "capacity:capacity period:period lasting:lasting slots:b in_force:amount rising:amount "
    "units:units released:units history:p stamped:p need:cost by_permit:cost ask:cost lacks:b "
    "piece:cost spent:cost reserved:cost permit_spent:p debts:p refunds:p moved:p wave"
)
"""The same of each bound. `history`, `permit_spent`, `debts` and `moved` are pairs of age and cost,
`stamped`, `refunds` and what is granted pairs of time stamp and cost."""

CHANGE = _fields("factor:amount lease:lease layout:s")
"""What an operator changes; 0 for what stays as it is. The layout is that which it knows."""

CHANGE_BOUND = _fields("capacity:capacity period:period lasting:lasting slots:b ramp:amount")
"""The same of each bound."""

REPLY = _fields(
    "kind:s format seq:count server:s now:stamp nonce:s created:b "
    "factor:amount lease:count layout:s version:count served:b "
    "certain:b uncertain:count cause:s skew born:count short:b permit:count "
    "back waiting:count ahead:count evicted:b counted:b instances:count heard:stamp"
)
"""What an instance receives. Terms that are not told are 0."""

REPLY_BOUND = _fields(
    "capacity:amount period:count lasting:count slots:b in_force:amount rising:amount "
    "units:units given:p keep:units share:units permit_cost:amount needs:count free:pool "
    "permit_at:stamp permit_stayed:f permit_wave"
)
"""The same of each bound."""

SCANNED = _fields("gone ask_since gathers:b turn:f seen interval:count weight:weight arrival:count")
SCANNED_BOUND = _fields("units:units need:units ask:amount piece:cost served_at due_at")
"""What a pass over all records reads of each: of the instance, and of each bound."""

RECORD = SCANNED + _fields("seq:count born:count until permit:count evicted:b counted:b")
RECORD_BOUND = SCANNED_BOUND + _fields(
    "permit_at permit_cost:amount permit_stayed:f permit_wave spent:cost reserved:cost "
    "share:units fair:f granted:units refundable:amount refundable_before:amount"
)
"""What is stored of an instance, in one string: what is scanned comes first, all of it."""

HEADER = _fields(
    "format now:stamp skew since:stamp proven not_before last interval:count doubted:b deleted:b "
    "factor:factor lease:lease version:count served:b "
    "next_id:count arrivals:count instances:count gap_since gap_until older_gap_since "
    "older_gap_until due collected:count next_due "
    "shares_at short_since behind:delay visited:count on_permits:count apart:b"
)
HEADER_BOUND = _fields(
    "capacity:capacity period:period lasting:lasting slots:b "
    "ramp_from:amount ramp_at ramp_rate:amount peak:amount peak_until whole:units "
    "pool:pool ledger:p returning:p stayed:f wave "
    "fair_units:amount fair_weight:count level_units:amount level_weight:count "
    "needs:count spare:f ease:f lot:count lacking:count epoch:count epoch_since served_at "
    "turns:count line_at line_from keeps:f scale:f "
    "sum_needs:count sum_shares:count "
    "sum_fair_used:count sum_fair_limited:count sum_fair_weight:count "
    "sum_level_used:count sum_level_limited:count sum_level_weight:count sum_aside:count "
    "sum_satisfied:count sum_rights:count sum_lacking:count sum_unserved:count "
    "sum_rest sum_turns:count sum_taken:count sum_kept:count sum_scaled:count lots:p"
)
"""What is stored of the limit itself, in one string; beside it are texts and lists."""

REGISTRY = _fields("format since now skew names:count")
"""What one server process knows of all limits, beside a time for each name."""

SALT = f"limit {FORMAT}:"
"""What every checksum begins with: no other format has the same ones."""


def lua_constants(text: str) -> str:
    """The constants that a Lua text names, as locals: a script has room for 200 of these in all."""
    words = set(re.findall(r"\w+", text))
    used = [name for name in _CONSTANTS if name in words]
    return "".join(f"local {name} = {globals()[name]!r}\n" for name in used)


def lua_prelude() -> str:
    """Functions that read and write what is sent and stored, for the scripts."""
    lines = [
        "local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max",
        "local byte, sub = string.byte, string.sub",
        "-- Whether a value, which may be nil, can be a whole number; and whether it is finite.",
        f"local function is_whole(n) return n and {_rule({'n': _field('n', 'n')})} end",
        f"local function is_finite(n) return n and {_rule({'n': _field('n', 'f')})} end",
        _CHECKS,
        _lists(),
        _scanner(),
        _glance(),
        *_records(),
        _reader("read_header", HEADER, HEADER_BOUND),
        _writer("write_header", HEADER, HEADER_BOUND),
        _reader("read_registry", REGISTRY),
        _writer("write_registry", REGISTRY),
        _reader("read_request", REQUEST, REQUEST_BOUND, judges=False),
        _judge("fits_request", REQUEST, REQUEST_BOUND),
        _writer("write_reply", REPLY, REPLY_BOUND),
        _reader("read_change", CHANGE, CHANGE_BOUND, judges=False),
        _judge("fits_change", CHANGE, CHANGE_BOUND, zero=True),
    ]
    return "\n".join(lines) + "\n"


_CHECKS = f"""
-- The checksum of what is stored under a name; `checksum` in _codec.py is the same.
local function check(name, text)
  return sub(redis.sha1hex('{SALT}' .. name .. '\\0' .. text), 1, {CHECK_LENGTH})
end

-- A text with its checksum behind it.
local function sealed(name, text)
  return text .. check(name, text)
end

-- The text without its checksum; nil if that is another one.
local function unsealed(name, text)
  if not text or #text < {CHECK_LENGTH} then
    return nil
  end
  local whole = sub(text, 1, -{CHECK_LENGTH + 1})
  return check(name, whole) == sub(text, -{CHECK_LENGTH}) and whole or nil
end
"""


def _lists() -> str:
    """A Lua function that gives each bound its part of a text that has the pairs of all, by the
    number of these that stands in its place. False if these are not all of the text."""
    return """
local function split_list(bounds, name, text)
  local from = 1
  for i = 1, #bounds do
    local count = bounds[i][name]
    if not (count >= 0 and count <= #text and count % 1 == 0) then
      return false
    end
    bounds[i][name] = sub(text, from, from + 16 * count - 1)
    from = from + 16 * count
  end
  return from == #text + 1
end
"""


def _in_lua(field: Field, table: str = "t") -> str:
    """As a field of a Lua table; `until` is a keyword there."""
    return f"{table}.{field.name}_" if field.name == "until" else f"{table}.{field.name}"


def _rule(fields: Mapping[str, Field]) -> str:
    """A condition in Lua: whether these variables can be numbers of these fields, as `Field.fits`
    says. Written so that NaN, which is in no order with any number, is refused as well."""
    conditions = []
    for name, field in fields.items():
        if field.kind is FieldKind.PAIRS:
            continue
        if math.isinf(field.high):
            conditions.append(f"{name} - {name} == 0")
        else:
            conditions.append(f"{name} >= {field.low!r} and {name} <= {field.high!r}")
        if field.kind is FieldKind.WHOLE:
            conditions.append(f"{name} % 1 == 0")
    return " and ".join(conditions)


def _unpacked(targets: Iterable[str], count: int, packed: str, position: str = "") -> str:
    return f"  {', '.join(targets)} = struct.unpack('<{'d' * count}', {packed}{position})"


def _scanner() -> str:
    """A Lua function that reads what a visit needs of a packed record: a table as that of
    `read_record`, with these fields alone. nil if a number cannot be one."""
    own = {f"{field.name}_": field for field in SCANNED}
    bound = {f"{field.name}_": field for field in SCANNED_BOUND}

    def table(fields: Iterable[Field]) -> str:
        texts = (
            f"{one.name} = {one.name}_ ~= 0"
            if one.kind is FieldKind.FLAG
            else f"{one.name} = {one.name}_"
            for one in fields
        )
        return ", ".join(texts)

    return "\n".join(
        [
            "local function scan_record(packed, bounds)",
            f"  if #packed ~= {_record_length('bounds')} + {CHECK_LENGTH} then return nil end",
            f"  local {', '.join(own)}, p",
            _unpacked([*own, "p"], len(own), "packed"),
            f"  if not ({_rule(own)}) then return nil end",
            f"  local t = {{ bounds = {{}}, {table(SCANNED)} }}",
            "  for b = 1, bounds do",
            f"    local {', '.join(bound)}",
            _unpacked([*bound, "p"], len(bound), "packed", ", p"),
            f"    if not ({_rule(bound)}) then return nil end",
            f"    t.bounds[b] = {{ {table(SCANNED_BOUND)} }}",
            "  end",
            "  return t",
            "end",
        ]
    )


def _record_length(bounds: str) -> str:
    """How many bytes a packed record has, in Lua."""
    return f"{8 * len(RECORD)} + {bounds} * {8 * len(RECORD_BOUND)}"


def _glance() -> str:
    """Lua functions that read of a packed record what collecting needs: when its lease is over, and
    its units of each bound (nil if a number cannot be one); and that replace these units. Both are
    the first fields."""
    gone, units = SCANNED[0], SCANNED_BOUND[0]
    width = 8 * len(SCANNED_BOUND)
    return f"""
local function glance_record(packed, bounds)
  if not packed or #packed ~= {_record_length("bounds")} + {CHECK_LENGTH} then return nil end
  local gone, held = struct.unpack('<d', packed), {{}}
  if not ({_rule({"gone": gone})}) then return nil end
  for b = 1, bounds do
    local units = struct.unpack('<d', packed, {8 * len(SCANNED) + 1} + {width} * (b - 1))
    if not ({_rule({"units": units})}) then return nil end
    held[b] = units
  end
  return gone, held
end
local function with_units(packed, held)
  local parts, p = {{ sub(packed, 1, {8 * len(SCANNED)}) }}, {8 * len(SCANNED)}
  for b = 1, #held do
    parts[2 * b], parts[2 * b + 1] = struct.pack('<d', held[b]), sub(packed, p + 9, p + {width})
    p = p + {width}
  end
  return table.concat(parts) .. sub(packed, p + 1)
end"""


def _records() -> list[str]:
    """Lua functions that read and write a record: what is scanned comes first."""
    parts = (
        (SCANNED, SCANNED_BOUND),
        (RECORD[len(SCANNED) :], RECORD_BOUND[len(SCANNED_BOUND) :]),
    )
    reads, writes = ["  local t, p = { bounds = {} }, 1", "  local b"], ["  local parts = {}"]
    for own, bound in parts:
        names = {_in_lua(one): one for one in own}
        of_bound = {_in_lua(one, "b"): one for one in bound}
        reads += [
            _unpacked([*names, "p"], len(own), "packed", ", p"),
            f"  if not ({_rule(names)}) then return nil end",
            "  for i = 1, bounds do",
            "    b = t.bounds[i] or {}",
            "    t.bounds[i] = b",
            _unpacked([*of_bound, "p"], len(bound), "packed", ", p"),
            f"    if not ({_rule(of_bound)}) then return nil end",
            "  end",
        ]
        writes += [
            f"  parts[#parts + 1] = {_packed_in_lua(own, 't')}",
            "  for i = 1, #t.bounds do",
            "    local b = t.bounds[i]",
            f"    parts[#parts + 1] = {_packed_in_lua(bound, 'b')}",
            "  end",
        ]
    flags = [f"  t.{one.name} = t.{one.name} ~= 0" for one in RECORD if one.kind is FieldKind.FLAG]
    return [
        "local function read_record(packed, bounds)",
        f"  if not packed or #packed ~= {_record_length('bounds')} then return nil end",
        *reads,
        *flags,
        "  return t",
        "end",
        "local function write_record(t)",
        *writes,
        "  return table.concat(parts)",
        "end",
    ]


def _judge(name: str, fields: Fields, of_bound: Fields, *, zero: bool = False) -> str:
    """A Lua function: whether each number in such a table, and each text, can be one; with `zero`,
    every number may be 0 too."""

    def rules(declared: Fields, table: str) -> list[str]:
        numbers = [one for one in numbers_of(declared) if one.kind is not FieldKind.FLAG]
        return [
            f"({_in_lua(one, table)} == 0 or {rule})" if zero else rule
            for one in numbers
            for rule in [_rule({_in_lua(one, table): one})]
        ]

    own = rules(fields, "t")
    own += [f"#t.{one.name} <= {MAX_TEXT}" for one in fields if one.kind is FieldKind.TEXT]
    return "\n".join(
        [
            f"local function {name}(t)",
            "  for i = 1, #t.bounds do",
            "    local b = t.bounds[i]",
            f"    if not ({' and '.join(rules(of_bound, 'b'))}) then return false end",
            "  end",
            f"  return {' and '.join(own)}",
            "end",
        ]
    )


def _reader(name: str, fields: Fields, of_bound: Fields = (), *, judges: bool = True) -> str:
    """A Lua function that makes a table of fields: of texts, lists of all bounds, and the numbers
    packed. Its `bounds` are tables, in which lists are packed texts. It returns nil if a length is
    another one, or, if it `judges`, a number cannot be one."""
    texts, numbers, lists = texts_of(fields), numbers_of(fields), texts_of(of_bound)
    names = {_in_lua(one): one for one in numbers}
    names_of_bound = {_in_lua(one, "b"): one for one in of_bound}
    arguments = ", ".join([*(f"{one.name}_" for one in (*texts, *lists)), "packed"])
    width = max(1, len(of_bound))
    lines = [
        f"local function {name}({arguments})",
        "  if not packed then return nil end",
        f"  local count = (#packed / 8 - {len(numbers)}) / {width}",
        f"  if count < 0 or count > {MAX_BOUNDS if of_bound else 0} or count % 1 ~= 0 then",
        "    return nil",
        "  end",
        "  local t, p = { bounds = {} }, 1",
        *(f"  t.{one.name} = {one.name}_" for one in texts),
        _unpacked([*names, "p"], len(numbers), "packed", ", p"),
        *([f"  if not ({_rule(names)}) then return nil end"] if judges else []),
        *_flags(numbers, "t"),
    ]
    if of_bound:
        lines += [
            "  for i = 1, count do",
            "    local b = {}",
            "    t.bounds[i] = b",
            _unpacked([*names_of_bound, "p"], len(of_bound), "packed", ", p"),
            *([f"    if not ({_rule(names_of_bound)}) then return nil end"] if judges else []),
            *_flags(of_bound, "b"),
            "  end",
        ]
    lines += [
        f"  if not split_list(t.bounds, '{one.name}', {one.name}_) then return nil end"
        for one in lists
    ]
    return "\n".join([*lines, "  return t", "end"])


def _flags(fields: Fields, table: str) -> list[str]:
    flags = [one for one in fields if one.kind is FieldKind.FLAG]
    return [f"  {table}.{one.name} = {table}.{one.name} ~= 0" for one in flags]


def _packed_in_lua(fields: Fields, table: str) -> str:
    values = []
    for one in fields:
        name = _in_lua(one, table)
        if one.kind is FieldKind.FLAG:
            values.append(f"({name} and {name} ~= 0) and 1 or 0")
        elif one.kind is FieldKind.PAIRS:
            values.append(f"#({name} or '') / 16")
        else:
            values.append(f"{name} or 0")
    return f"struct.pack('<{'d' * len(values)}', {', '.join(values)})"


def _writer(name: str, fields: Fields, of_bound: Fields = ()) -> str:
    """A Lua function that returns a list: the texts of a table, the lists of all of its bounds, and
    the numbers packed. What is missing is empty."""
    texts, lists = texts_of(fields), texts_of(of_bound)
    lines = [
        f"local function {name}(t)",
        f"  local packed = {{ {_packed_in_lua(numbers_of(fields), 't')} }}",
    ]
    lines += [f"  local {one.name}_ = {{}}" for one in lists]
    if of_bound:
        lines += [
            "  for i = 1, #(t.bounds or {}) do",
            "    local b = t.bounds[i]",
            f"    packed[i + 1] = {_packed_in_lua(of_bound, 'b')}",
            *(f"    {one.name}_[i] = b.{one.name} or ''" for one in lists),
            "  end",
        ]
    listed = [
        *(f"t.{one.name} or ''" for one in texts),
        *(f"table.concat({one.name}_)" for one in lists),
        "table.concat(packed)",
    ]
    return "\n".join([*lines, f"  return {{ {', '.join(listed)} }}", "end"])
