"""A figure: what was measured, its bound, and whether it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Figure:
    """One line of the output."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the figure is what it should be."""
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most)

    def __str__(self) -> str:
        wanted = ""
        if self.at_least is not None:
            wanted = f"at least {self.at_least:g}"
        if self.at_most is not None:
            wanted = f"at most {self.at_most:g}"
        mark = "  " if not wanted else ("ok" if self.holds else "NO")
        value = f"{self.value:.4g} {self.unit}"
        return f"  {mark} {self.name:<58} {value:<22} {wanted:<16} {self.note}".rstrip()
