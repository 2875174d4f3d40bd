"""Errors that a report can raise."""

from __future__ import annotations

from dispatcher.errors import DispatcherError


class ReportError(DispatcherError):
    """The report cannot be written to its file."""
