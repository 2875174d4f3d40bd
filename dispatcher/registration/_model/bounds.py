"""How much may wait, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

MOST_DEEP = 1_000
"""How many ancestors are looked at before a chain of them counts as endless."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """See RegistrationGate."""

    telemetry_limit: int
    telemetry_per_entity: int
    metadata_limit: int
    pending_entities: int
    max_age: float
    auto_register: bool
