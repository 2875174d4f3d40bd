"""A script that runs inside Redis: files put together, and the hash by which a server finds it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Script:
    """A script: its source, and the hash by which a server finds it."""

    source: str
    sha: str


def from_files(package: str, *names: str) -> Script:
    """Return the script that files of the folder `lua` of `package` make together. They are read as
    resources, since the packages may be in a zip."""
    folder = files(package) / "lua"
    return of_source("\n".join((folder / f"{name}.lua").read_text("utf-8") for name in names))


def of_source(source: str) -> Script:
    """Return the script with this source."""
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
