"""A run as a page that people can look at: HTML with charts in it, and nothing else needed."""

from dispatcher.report.page import Run, page

__all__ = ["Run", "page"]
