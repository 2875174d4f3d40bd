"""A script that runs inside Redis: files put together, and the name a server knows it by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Script:
    """A script: files put together, and what a server calls it."""

    source: str
    sha: str


def from_files(folder: Path, *files: str) -> Script:
    """The script that `files` of `folder` make together."""
    return of_source("\n".join((folder / f"{file}.lua").read_text("utf-8") for file in files))


def of_source(source: str) -> Script:
    """The script that `source` is."""
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
