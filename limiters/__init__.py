"""Budgets: who may spend how much, now."""

from limiters.errors import DispatcherError, ImproperOrderError, LimiterError
from limiters.events import Event, Listener
from limiters.limiter import Grant, RateLimiter
from limiters.provisioned import ProvisionedResource

__all__ = [
    "DispatcherError",
    "Event",
    "Grant",
    "ImproperOrderError",
    "LimiterError",
    "Listener",
    "ProvisionedResource",
    "RateLimiter",
]
