"""Write reports as files, completely or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dispatcher.report.errors import ReportError
from dispatcher.report.page import image, page
from dispatcher.report.run import Run

NEITHER = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"}
"""Suffixes of files that are neither a page nor a picture."""


class ReportFile:
    """The file of a report: `*.svg` is a picture, any other a page.

    Whether it can be written is checked immediately, so that a run of minutes is not lost.

    >>> ReportFile("/nowhere/report.html")
    Traceback (most recent call last):
        ...
    dispatcher.report.errors.ReportError: ...
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise ReportError(f"{path} is a directory; name a file in it, such as report.html")
        if self.path.suffix.lower() in NEITHER:
            raise ReportError(f"{path}: a report is a picture, *.svg, or a page, *.html")
        if self._is_plain:
            os.unlink(self._temporary(""))

    def write(
        self, runs: Sequence[Run], text: Sequence[str] = (), notes: Sequence[str] = ()
    ) -> None:
        """Write the report, a page with paragraphs above and below its table. ReportError if it
        cannot be written any more."""
        is_image = self.path.suffix.lower() == ".svg"
        drawn = image(runs) if is_image else page(runs, text, notes)
        if not self._is_plain:
            self.path.write_text(drawn, "utf-8")
            return
        name = self._temporary(drawn)
        try:
            os.replace(name, self.path)
        except OSError as error:
            os.unlink(name)
            raise self._refusal(error) from error

    @property
    def _is_plain(self) -> bool:
        return not self.path.exists() or self.path.is_file()

    def _temporary(self, text: str) -> str:
        """A temporary file in the same directory with this text, which replaces the report; deleted
        if that fails."""
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        except OSError as error:
            raise self._refusal(error) from error
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                os.chmod(name, 0o644)
        except BaseException as error:
            os.unlink(name)
            if isinstance(error, OSError):
                raise self._refusal(error) from error
            raise
        return name

    def _refusal(self, error: OSError) -> ReportError:
        return ReportError(
            f"the report cannot be written to {self.path}: {error.strerror}; name a file in a "
            "directory that exists and may be written to"
        )
