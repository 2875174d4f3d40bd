"""The error for a call that a runner of callbacks did not make."""

from __future__ import annotations


class NotStarted(Exception):  # noqa: N818 - it is not an error of anybody's
    """The call was not made: the capacity that it would have spent is gone."""
