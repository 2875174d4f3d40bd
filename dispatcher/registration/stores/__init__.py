"""Stores for the entities of a gate: in memory, in a file, in Redis."""

from dispatcher.registration.stores.memory import MemoryEntityStore
from dispatcher.registration.stores.redis import RedisEntityStore
from dispatcher.registration.stores.sqlite import SqliteEntityStore

__all__ = ["MemoryEntityStore", "RedisEntityStore", "SqliteEntityStore"]
