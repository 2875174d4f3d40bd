"""The files of `make storms` and `make twins`: which seeds have run at which commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from tests.loop import lines


@dataclass(frozen=True)
class Block:
    """Seeds that have run, the last one included."""

    commit: str
    kind: str
    first: int
    last: int
    judged: int
    """How many windows, or requests."""
    failed: tuple[int, ...]

    def line(self) -> str:
        """The form in which it is written."""
        *facts, failed = astuple(self)
        return "\t".join([*map(str, facts), " ".join(map(str, failed))]) + "\n"

    @classmethod
    def parse(cls, line: str) -> Block:
        """The inverse of `line`."""
        commit, kind, first, last, judged, failed = line.rstrip("\n").split("\t")
        seeds = tuple(map(int, failed.split()))
        return cls(commit, kind, int(first), int(last), int(judged), seeds)


HEADER = "\t".join(field.name for field in fields(Block)) + "\n"


def append(path: Path, block: Block) -> None:
    """Write a line for seeds that have run."""
    lines.append(path, HEADER, block.line())


def read(path: Path) -> list[Block]:
    """All blocks so far; RecordError if a line is none."""
    return lines.read(path, HEADER, Block.parse, "a block of seeds")


def next_seed(blocks: Iterable[Block], commit: str, kind: str) -> int:
    """The first seed that has not run at this commit.

    >>> next_seed([Block("abc", "gale", 0, 9, 5, ())], "abc", "gale"), next_seed([], "abc", "gale")
    (10, 0)
    """
    done = [block.last for block in blocks if (block.commit, block.kind) == (commit, kind)]
    return max(done, default=-1) + 1


def summary(blocks: Iterable[Block], commit: str, kind: str, judged: str = "windows") -> str:
    """How many seeds of a kind have run at this commit, and which failed."""
    of_kind = [one for one in blocks if (one.commit, one.kind) == (commit, kind)]
    seeds = sum(one.last - one.first + 1 for one in of_kind)
    failed = [seed for one in of_kind for seed in one.failed]
    told = f"failed: {' '.join(map(str, failed))}" if failed else "none failed"
    number = sum(one.judged for one in of_kind)
    return f"{kind} at {commit}: {seeds:,} seeds, {number:,} {judged}, {told}"
