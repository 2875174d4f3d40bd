"""Early messages: what comes before its entity is registered waits, and nothing else does."""

from dispatcher.registration.early_log import EarlyMessageLog
from dispatcher.registration.emissions import Emission
from dispatcher.registration.errors import (
    AutoRegistrationConflictError,
    EntityStoreError,
    RegistrationCycleError,
    RegistrationError,
)
from dispatcher.registration.gate import RegistrationGate
from dispatcher.registration.memory import MemoryEntityStore
from dispatcher.registration.redis import RedisEntityStore
from dispatcher.registration.release import Registration, Release
from dispatcher.registration.reports import Amounts, Report
from dispatcher.registration.sqlite import SqliteEntityStore

__all__ = [
    "Amounts",
    "AutoRegistrationConflictError",
    "EarlyMessageLog",
    "Emission",
    "EntityStoreError",
    "MemoryEntityStore",
    "RedisEntityStore",
    "Registration",
    "RegistrationCycleError",
    "RegistrationError",
    "RegistrationGate",
    "Release",
    "Report",
    "SqliteEntityStore",
]
