"""The output of a gate."""

from __future__ import annotations

from typing import Any, NamedTuple


class Registration(NamedTuple):
    """The registration of an entity; `parent` is None for one at the top."""

    entity: str
    parent: str | None = None
    data: Any = None


class Release(NamedTuple):
    """A release of one entity: its registration if that is new or has changed, then its metadata
    and its telemetry, each in order of arrival.

    >>> Release("meter", None, ("21.5",)).messages
    ('21.5',)
    """

    entity: str
    registration: Registration | None
    messages: tuple[Any, ...]
