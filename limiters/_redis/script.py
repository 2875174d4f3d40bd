"""A script that runs inside Redis: files put together, and the name a server knows it by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Script:
    """A script: files put together, and what a server calls it."""

    source: str
    sha: str


def from_files(package: str, *names: str) -> Script:
    """The script that files of the folder `lua` of `package` make together. They are read as
    resources: the packages may be in a zip."""
    folder = files(package) / "lua"
    return of_source("\n".join((folder / f"{name}.lua").read_text("utf-8") for name in names))


def of_source(source: str) -> Script:
    """The script that `source` is."""
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
