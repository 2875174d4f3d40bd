"""A run as a page, or a picture, that people can look at: nothing else is needed for it."""

from dispatcher.report.errors import ReportError
from dispatcher.report.page import image, page
from dispatcher.report.run import Entry, Run
from dispatcher.report.verified import report, report_limits
from dispatcher.report.writing import ReportFile

__all__ = ["Entry", "ReportError", "ReportFile", "Run", "image", "page", "report", "report_limits"]
