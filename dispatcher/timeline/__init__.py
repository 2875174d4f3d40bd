"""Messages that are due at a time, stored in Redis: each is leased to one consumer at a time, never
duplicated, never lost."""

from dispatcher.timeline._encoding.bodies import UnreadableBody
from dispatcher.timeline._leasing.settling import Bury, Delete, Ending, ReleaseLease
from dispatcher.timeline.consumer import Consumer
from dispatcher.timeline.errors import (
    BucketCountError,
    TimelineError,
    TimelineUnavailableError,
)
from dispatcher.timeline.message import Lease, Leases, Message, Snapshot
from dispatcher.timeline.operator import Operator
from dispatcher.timeline.outcomes import (
    AlreadyGone,
    Buried,
    Created,
    Deleted,
    Duplicate,
    Durability,
    Extended,
    Invalid,
    Leased,
    LeaseExpired,
    LeaseLost,
    MessageOutcome,
    Moved,
    NoAnswer,
    NotFound,
    NotOwner,
    Released,
    Status,
    TimeInPast,
    VersionConflict,
)
from dispatcher.timeline.producer import Producer
from dispatcher.timeline.timeline import Stats, Timeline

__all__ = [
    "AlreadyGone",
    "BucketCountError",
    "Buried",
    "Bury",
    "Consumer",
    "Created",
    "Delete",
    "Deleted",
    "Duplicate",
    "Durability",
    "Ending",
    "Extended",
    "Invalid",
    "Lease",
    "LeaseExpired",
    "LeaseLost",
    "Leased",
    "Leases",
    "Message",
    "MessageOutcome",
    "Moved",
    "NoAnswer",
    "NotFound",
    "NotOwner",
    "Operator",
    "Producer",
    "ReleaseLease",
    "Released",
    "Snapshot",
    "Stats",
    "Status",
    "TimeInPast",
    "Timeline",
    "TimelineError",
    "TimelineUnavailableError",
    "UnreadableBody",
    "VersionConflict",
]
