"""The rules of `words.toml`: what is found in a text, and which places are not checked."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.language.texts import Text

FILE = Path(__file__).parent / "words.toml"


class Pattern(NamedTuple):
    """A way to write that the linter reports."""

    name: str
    find: re.Pattern[str]
    instead: str
    kinds: frozenset[str] | None
    """The kinds of text that are checked, None for all."""

    def matches(self, text: Text) -> bool:
        checked = self.kinds is None or text.kind in self.kinds
        return checked and self.find.search(text.text) is not None


@dataclass(frozen=True)
class Rules:
    """The content of `words.toml`."""

    patterns: tuple[Pattern, ...]
    later: tuple[str, ...]
    exempt: tuple[str, ...]

    def unchecked(self, path: str, pattern: str) -> bool:
        """Whether `path`, relative to the root, is one in which `pattern` is not reported."""
        for entry in self.later + self.exempt:
            place, _, names = entry.partition(":")
            if path == place or path.startswith(f"{place}/"):
                listed = [name.strip() for name in names.split(",") if name.strip()]
                if not listed or pattern in listed:
                    return True
        return False


def read(file: Path = FILE) -> Rules:
    """The rules in `file`. ValueError if an entry names a pattern that is not there."""
    table = tomllib.loads(file.read_text("utf-8"))
    patterns = tuple(
        Pattern(
            name,
            re.compile(row["find"], re.IGNORECASE),
            row["instead"],
            frozenset(row["in"]) if "in" in row else None,
        )
        for name, row in table["pattern"].items()
    )
    rules = Rules(patterns, tuple(table["later"]), tuple(table["exempt"]))
    names = {pattern.name for pattern in patterns}
    for entry in rules.later + rules.exempt:
        listed = {name.strip() for name in entry.partition(":")[2].split(",") if name.strip()}
        if listed - names:
            raise ValueError(f"{file}: {entry!r} names no pattern: {sorted(listed - names)}")
    return rules
