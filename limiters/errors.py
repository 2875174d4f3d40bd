"""Every error of the project, from its root down to those of the ground floor.

The root stands here, below `dispatcher`, so that `except DispatcherError` catches all of
them and `except LimiterError` those of the limiters alone.
"""

from __future__ import annotations


class DispatcherError(Exception):
    """The root of every error this project raises on purpose."""


class LimiterError(DispatcherError):
    """Something about a rate limiter."""


class ImproperOrderError(DispatcherError):
    """A call that does not fit the state: started twice, stopped before it was started."""


class LeaseManagerError(LimiterError):
    """Whoever keeps the leases gave no answer, or refused: only what is reserved can be used."""


class SharedCapacityNotProvisionedError(LimiterError):
    """Shared capacity was asked for, and there is nobody to share it with."""
