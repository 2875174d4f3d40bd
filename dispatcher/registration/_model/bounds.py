"""Limits on what may wait, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, field

from limiters._support.options import ConvertedOptions, about
from limiters._support.validation import Seconds, count, flag, seconds

MOST_DEEP = 1_000
"""Maximum number of ancestors to examine before a chain of them counts as endless."""


@dataclass(frozen=True, kw_only=True)
class Bounds(ConvertedOptions):
    """The options of a gate that limit what it holds."""

    telemetry_limit: int = field(
        default=100_000,
        metadata=about(
            "how many telemetry messages are held in all; then the entity with the most loses "
            "its oldest: the sender itself, if no entity has more",
            count,
        ),
    )
    telemetry_per_entity: int = field(
        default=100,
        metadata=about(
            "how many telemetry messages are held of one entity; then the newest displaces the "
            "oldest",
            count,
        ),
    )
    metadata_limit: int = field(
        default=100_000,
        metadata=about(
            "how many metadata messages are held in all; none is displaced by another, nor by "
            "telemetry, but the entity that holds the most goes, with all it has; of equal ones "
            "the oldest",
            count,
        ),
    )
    pending_entities: int = field(
        default=10_000, metadata=about("how many entities may wait; then the oldest goes", count)
    )
    max_age: Seconds = field(
        default=600.0,
        metadata=about(
            "how long an entity may wait, from its first message or registration on; then it goes",
            seconds,
            unit="s",
        ),
    )
    auto_register: bool = field(
        default=False,
        metadata=about("register each entity at its first message, without a parent", flag),
    )
