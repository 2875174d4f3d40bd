"""Hold early messages until their entity is registered, and pass all others."""

from dispatcher.registration._model.emissions import Emission
from dispatcher.registration._model.release import Registration, Release
from dispatcher.registration._model.reports import Amounts, Report
from dispatcher.registration.early_log import EarlyMessageLog
from dispatcher.registration.errors import (
    AutoRegistrationConflictError,
    EntityStoreError,
    RegistrationCycleError,
    RegistrationError,
)
from dispatcher.registration.gate import RegistrationGate
from dispatcher.registration.stores.memory import MemoryEntityStore
from dispatcher.registration.stores.redis import RedisEntityStore
from dispatcher.registration.stores.sqlite import SqliteEntityStore

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
