"""The runner of a callback says so of a call that it did not make; our own callbacks raise it."""

from __future__ import annotations


class NotStarted(Exception):  # noqa: N818 - it is not an error of anybody's
    """The call was not made: what it would have spent is not there any more."""
