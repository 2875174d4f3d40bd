"""Report the patterns of `words.toml` that are found in the project's prose: `python -m
tests.language`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.language.rules import Pattern, Rules, read
from tests.language.texts import Text, texts

ROOT = Path(__file__).parents[2]


class Finding(NamedTuple):
    """A text of `path` in which a pattern is found."""

    path: str
    text: Text
    pattern: Pattern

    def __str__(self) -> str:
        match = self.pattern.find.search(self.text.text)
        assert match is not None
        start = max(0, match.start() - 30)
        shown = self.text.text[start : match.end() + 30]
        where = f"{self.path}:{self.text.line}: {self.text.kind}"
        return f"{where}: {self.pattern.name}: ...{shown}...\n    instead: {self.pattern.instead}"


def files(places: Sequence[str]) -> list[str]:
    """The files below `places` that git has, or would add, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def findings(rules: Rules, names: Sequence[str], *, everywhere: bool) -> Iterator[Finding]:
    """All that is found in these files; `everywhere` looks also where the rules say later."""
    for name in names:
        patterns = [
            one for one in rules.patterns if everywhere or not rules.unchecked(name, one.name)
        ]
        if patterns:
            for text in texts(ROOT / name):
                yield from (Finding(name, text, one) for one in patterns if one.matches(text))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 if anything is found."""
    parser = argparse.ArgumentParser(prog="python -m tests.language", description=__doc__)
    parser.add_argument(
        "places", nargs="*", default=["."], help="files and folders; all of the project"
    )
    parser.add_argument(
        "--all", action="store_true", help="also the places that are not checked yet"
    )
    parser.add_argument("--count", action="store_true", help="only how often each pattern is found")
    options = parser.parse_args(arguments)
    rules = read()
    found = list(findings(rules, files(options.places), everywhere=options.all))
    if options.count:
        counts = Counter(one.pattern.name for one in found)
        for pattern in rules.patterns:
            print(f"{counts[pattern.name]:6}  {pattern.name}")
        print(f"{len(found):6}  in all")
    else:
        for one in found:
            print(one)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
