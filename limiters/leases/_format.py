"""The format of a shared limit: its constants, and the fields of what is sent and stored.

Declared once, for the coordinator in Python and for its twin in Lua: `lua_prelude` writes the
same constants and fields as Lua, in front of each script. Durations are whole milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FORMAT = 2
"""Written into every header, request and reply. Other formats are refused, never guessed."""

UNITS = 2**32
"""A lease is an amount: so many units of the whole limit, whatever its capacity."""

SLICES = 100
"""Spending is recorded in slices of a period, rounded up to the end of the slice."""

GUARD_MS = 6
"""How much longer than a period an entry counts, for each second of the period, and at least:
for a thread that is switched out between the start of a callback and its time stamp."""

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

QUEUE_LENGTH = 32
"""How many of those who wait for a permit the header keeps."""

INSTANCES_PER_MS = 10
"""Shares are computed again when they are older than a millisecond for so many instances."""

MAX_ROUNDS = 64
"""How many rounds the computation of fair shares takes at most."""

CREDIT_PERIODS = 5
"""For so many periods at most, an instance that did not use its turns is compensated."""

MIN_STAYED = 1e-6
"""When less than this share of the pool has stayed since a permit, it is no longer corrected."""

SILENT_MS = 100
"""How long after its second missed sync an instance loses its place in the queue."""

REGISTRY_SPANS = 10
"""How many spans ahead the registry says that something of a limit may be out."""

RELEASE_SLACK = 16
"""While nobody is short, an instance keeps what it does not need, up to this fraction of it."""

NEVER = -(10**15)
"""A time before all others."""

DEFAULT_SPAN = 6006
"""How long a server without certainty waits at least: the span of the default lease and period."""

_CONSTANTS = (
    "FORMAT",
    "UNITS",
    "SLICES",
    "GUARD_MS",
    "FLOAT_ERROR",
    "MAX_TRIES",
    "WHOLE_BATCHES",
    "QUEUE_LENGTH",
    "INSTANCES_PER_MS",
    "MAX_ROUNDS",
    "CREDIT_PERIODS",
    "MIN_STAYED",
    "SILENT_MS",
    "REGISTRY_SPANS",
    "RELEASE_SLACK",
    "NEVER",
    "DEFAULT_SPAN",
)


class Kind(Enum):
    """How a field is written."""

    TEXT = "s"
    NUMBER = "n"
    """A whole number or a float: as text with 17 digits when sent, as a double when stored."""
    PAIRS = "p"
    """Pairs of numbers, packed as doubles."""


T, N, P = Kind.TEXT, Kind.NUMBER, Kind.PAIRS


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name in both languages, and how it is written."""

    name: str
    kind: Kind


def _fields(text: str) -> tuple[Field, ...]:
    return tuple(
        Field(name, Kind(kind or "n"))
        for name, _, kind in (one.partition(":") for one in text.split())
    )


REQUEST = _fields(
    "format instance:s seq born server:s age nonce:s ended confirmed tries "
    "capacity factor period lease version served in_force rising "
    "units left released history:p stamped:p need by_permit ask gathers waited valid piece weight "
    "interval spent reserved label:s leaving permit permit_spent:p totals:p"
)
"""What an instance sends. `history` and `permit_spent` are pairs of age and cost, `stamped` and
what is granted pairs of time stamp and cost."""

REPLY = _fields(
    "kind:s format seq server:s now nonce:s created "
    "capacity factor period lease version in_force rising certain uncertain cause:s skew "
    "born units given:p keep share short permit permit_cost back waiting ahead evicted counted "
    "instances needs free"
)

RECORD = _fields(
    "seq born units until gone seen interval need by_permit weight piece ask ask_since gathers "
    "turn permit permit_at permit_cost permit_stayed permit_wave spent reserved evicted counted "
    "share"
)
"""What is stored of an instance: these, as doubles."""

HEADER = _fields(
    "format now skew since proven not_before last interval doubted deleted "
    "capacity factor period lease version served ramp_from ramp_at ramp_rate "
    "pool stayed wave next_id instances kept_until due "
    "shares_at fair_units fair_weight level_units level_weight aside needs"
)
"""What is stored of the limit itself: these, as doubles; beside them texts and lists."""


def lua_prelude() -> str:
    """The constants and fields, for the scripts."""
    lines = [f"local {name} = {globals()[name]!r}" for name in _CONSTANTS]
    for name, fields in (
        ("REQUEST", REQUEST),
        ("REPLY", REPLY),
        ("RECORD", RECORD),
        ("HEADER", HEADER),
    ):
        names = ", ".join(f"{{'{field.name}', '{field.kind.value}'}}" for field in fields)
        lines.append(f"local {name} = {{ {names} }}")
    return "\n".join(lines)
