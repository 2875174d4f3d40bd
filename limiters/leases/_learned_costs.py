"""What an instance has learned of the costs of calls, in the lines below its label. For people:
nothing is decided by it. Pure.

A line is a cost: estimate, settled, cold (0 or 1), dimension and kind, with tabs between. Kinds are
users' texts, and what is stored may be anybody's: both are bounded, when written and when read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from limiters._support.learned_cost import LONGEST_KIND, MOST_COSTS, LearnedCost
from limiters._support.validation import MAX_AMOUNT
from limiters.leases._format import MAX_TEXT, MAX_WHOLE


def shown(text: str) -> str:
    r"""Return a text as it is written in a line.

    >>> shown("a\tb\x1b[2J"), len(shown("x" * 1_000))
    ('a?b?[2J', 40)
    """
    cut = text if len(text) <= LONGEST_KIND else f"{text[: LONGEST_KIND - 1]}…"
    return "".join(one if one.isprintable() else "?" for one in cut)


def with_costs(label: str, costs: Iterable[LearnedCost]) -> str:
    """Return a label with as many of these costs as fit below it, the first ones first.

    >>> with_costs("host:1", [LearnedCost("small", "tokens", 1034.56, 200, False)])
    'host:1\\n1035\\t200\\t0\\ttokens\\tsmall'
    """
    lines, room = [label], MAX_TEXT - len(label.encode("utf-8", "surrogateescape"))
    for one in costs:
        numbers = f"{one.estimate:.4g}\t{min(one.settled, MAX_WHOLE)}\t{one.cold:d}"
        line = f"{numbers}\t{shown(one.dimension)}\t{shown(one.kind)}"
        room -= 1 + len(line.encode())
        if room < 0 or len(lines) > MOST_COSTS:
            break
        lines.append(line)
    return "\n".join(lines)


def costs_below(label: str) -> list[LearnedCost]:
    r"""Return the costs that are written below a label. Lines that are none are left out.

    >>> costs_below("host:1\n1035\t200\t0\t\tsmall\nnan\t1\t0\t\tx\nor anything else")
    [LearnedCost(kind='small', dimension='', estimate=1035.0, settled=200, cold=False)]
    """
    return list(_costs_in(label[: 2 * MAX_TEXT].split("\n")[1 : MOST_COSTS + 1]))


def _costs_in(lines: Iterable[str]) -> Iterator[LearnedCost]:
    for line in lines:
        try:
            estimate, settled, cold, dimension, kind = line.split("\t")
            amount, count, is_cold = float(estimate), int(settled), int(cold)
        except ValueError:
            continue
        if 0 <= amount <= MAX_AMOUNT and 0 <= count <= MAX_WHOLE and is_cold in (0, 1):
            yield LearnedCost(shown(kind), shown(dimension), amount, count, bool(is_cold))


@dataclass(frozen=True, slots=True)
class LearnedKindView:
    """What the instances of a limit have learned of one kind, in one dimension."""

    kind: str
    dimension: str
    lowest: float
    """The lowest estimate of an instance."""
    highest: float
    settled: int
    """How many operations were settled, by all instances."""
    instances: int
    """How many instances say so."""
    cold: int
    """How many of them have settled too few."""


def combined(costs: Iterable[Iterable[LearnedCost]]) -> list[LearnedKindView]:
    """Return what instances have learned, by kind and dimension: the one settled most often first.
    Of one instance, several of the same kind are one."""
    found: dict[tuple[str, str], LearnedKindView] = {}
    for of_instance in costs:
        mine: dict[tuple[str, str], LearnedKindView] = {}
        for one in of_instance:
            key, cold = (one.kind, one.dimension), int(one.cold)
            own = LearnedKindView(*key, one.estimate, one.estimate, one.settled, 1, cold)
            mine[key] = _both(mine[key], own, instances=1) if key in mine else own
        for key, own in mine.items():
            known = found.get(key)
            found[key] = own if known is None else _both(known, own, known.instances + 1)
    return sorted(found.values(), key=lambda one: (-one.settled, one.kind, one.dimension))


def _both(one: LearnedKindView, other: LearnedKindView, instances: int) -> LearnedKindView:
    return replace(
        one,
        lowest=min(one.lowest, other.lowest),
        highest=max(one.highest, other.highest),
        settled=one.settled + other.settled,
        instances=instances,
        cold=min(instances, one.cold + other.cold),
    )
