"""Prints the lowest versions that pyproject.toml allows, as constraints for pip: `make lowest`."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

BESIDE = {"numpy": "<2"}
"""Packages that pandas and pyarrow of that time were built with, which their metadata omits."""


def lowest(requirements: list[str]) -> dict[str, str]:
    """The lowest version of each package, by its name.

    >>> lowest(["redis>=5.1", "pandas>=2,<3", "x[sql]>=1.0; sys_platform != 'win32'"])
    {'redis': '==5.1', 'pandas': '==2', 'x': '==1.0'}
    """
    found = {}
    for requirement in requirements:
        match = re.match(r"([\w-]+)(?:\[.*?\])?>=([\d.]+)", requirement)
        if match is None:
            raise ValueError(f"{requirement!r} has no lower bound of the form name>=version")
        found[match[1]] = f"=={match[2]}"
    return found


def main() -> None:
    """All that the package and its extras need."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    bounds = lowest(project["dependencies"] + [one for extra in extras for one in extra])
    sys.stdout.writelines(f"{name}{bound}\n" for name, bound in {**bounds, **BESIDE}.items())


if __name__ == "__main__":
    main()
