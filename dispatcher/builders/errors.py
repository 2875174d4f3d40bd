"""Errors about measurements that a builder cannot use."""

from __future__ import annotations

from limiters.errors import DispatcherError

_LONGEST = 300


class MeasurementError(DispatcherError, ValueError):
    """A measurement lacks what the builder needs; the builder is as it was before.

    `measurement` is the object, `reason` what is wrong with it.

    >>> MeasurementError({"id": 7}, "it has no time")
    MeasurementError("{'id': 7} cannot be used: it has no time")
    """

    def __init__(self, measurement: object, reason: str) -> None:
        self.measurement = measurement
        self.reason = _short(reason)
        super().__init__(f"{_shown(measurement)} cannot be used: {self.reason}")


def _shown(measurement: object) -> str:
    try:
        return _short(repr(measurement))
    except Exception:  # the repr of a user's object may raise
        return f"a {type(measurement).__name__}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
