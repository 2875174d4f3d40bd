"""What can go wrong with a report."""

from __future__ import annotations

from dispatcher.errors import DispatcherError


class ReportError(DispatcherError):
    """The report cannot be written to where it was to go."""
