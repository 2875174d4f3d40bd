"""Metadata for the package index in addition to pyproject.toml: the README with links that work
there, and the project's addresses. Hatchling calls it for each wheel and source archive.

The project's address has one place, `[tool.hatch.metadata.hooks.custom]` in pyproject.toml. While
it is empty, links stay relative.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^]]*)\]\((?!https?://|#)([^)\s]+)\)")


def readme(text: str, address: str, version: str) -> str:
    """Return the README of that version, for readers who do not have the files next to it.

    >>> readme("![a](b.svg) and [c](d.md#e), [f](#g)", "https://x", "1.2")
    '![a](https://x/raw/v1.2/b.svg) and [c](https://x/blob/v1.2/d.md#e), [f](#g)'
    """

    def absolute(link: re.Match[str]) -> str:
        mark, label, path = link.groups()
        return f"{mark}[{label}]({address}/{'raw' if mark else 'blob'}/v{version}/{path})"

    return _LINK.sub(absolute, text) if address else text


def urls(address: str) -> dict[str, str]:
    """Return the links for the package index.

    >>> urls("")
    {}
    """
    pages = {
        "Source": "",
        "Documentation": "/blob/main/docs/index.md",
        "Changelog": "/blob/main/CHANGELOG.md",
        "Issues": "/issues",
    }
    return {name: f"{address}{path}" for name, path in pages.items()} if address else {}


class MetadataHook(MetadataHookInterface):
    """The hook that Hatchling finds and calls."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the fields that pyproject.toml calls dynamic."""
        address = str(self.config["address"]).rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": readme(text, address, metadata["version"]),
        }
        metadata["urls"] = urls(address)
