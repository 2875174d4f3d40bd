"""The storms: each judges a cluster run from a seed. Some seeds in `make test`, many in
`make storms`."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.exceptions import ShorterFirst, SmallSteps, SplitBrain
from tests.simulation.judge import Judgement
from tests.simulation.settled import settled
from tests.simulation.several import SeveralSlots, several
from tests.simulation.weather import SERVER_FAULTS, Changes, Weather

RETURNS = (*SERVER_FAULTS, *["return"] * 8, *["other"] * 4)


def every_fault(seed: int) -> Judgement:
    """All faults that the design covers: no window is over."""
    return Weather(seed).run()


def changes(seed: int) -> Judgement:
    """Nothing fails; capacity and demand change, instances come and go."""
    return Changes(seed).run()


def returns(seed: int) -> Judgement:
    """The address also leads back to servers that were in charge before: exception X1."""
    return Weather(seed, RETURNS).run()


def shorter_first(seed: int) -> Judgement:
    """Servers forget, and those with a shorter lease come first: exception X2."""
    return ShorterFirst(seed).run()


def split_brain(seed: int) -> Judgement:
    """Two servers are in charge at the same time, again and again: exception X3."""
    return SplitBrain(seed).run()


def small_steps(seed: int) -> Judgement:
    """Servers' clocks are stepped by so little that it looks like a delay: exception X4."""
    return SmallSteps(seed).run()


def several_every_fault(seed: int) -> Judgement:
    """Every fault, with several bounds: windows within windows, costs that count from the end of a
    call, and calls in flight."""
    return several(Weather)(seed).run()


def several_changes(seed: int) -> Judgement:
    """Changes alone, with several bounds."""
    return several(Changes)(seed).run()


def slots_every_fault(seed: int) -> Judgement:
    """Every fault, with several bounds and calls that take several slots."""
    return several(Weather, SeveralSlots)(seed).run()


def slots_changes(seed: int) -> Judgement:
    """Changes alone, with calls that take several slots."""
    return several(Changes, SeveralSlots)(seed).run()


def several_returns(seed: int) -> Judgement:
    """X1 with several bounds."""
    return several(Weather)(seed, RETURNS).run()


def several_shorter_first(seed: int) -> Judgement:
    """X2 with several bounds."""
    return several(ShorterFirst)(seed).run()


def several_split_brain(seed: int) -> Judgement:
    """X3 with several bounds."""
    return several(SplitBrain)(seed).run()


def several_small_steps(seed: int) -> Judgement:
    """X4 with several bounds."""
    return several(SmallSteps)(seed).run()


def settled_every_fault(seed: int) -> Judgement:
    """Costs are only estimated before a call, by upper bounds: no window is over by true costs."""
    return settled(Weather)(seed).run()


def settled_changes(seed: int) -> Judgement:
    """Changes alone, with costs that are settled."""
    return settled(Changes)(seed).run()


def settled_several(seed: int) -> Judgement:
    """Every fault, with several bounds and costs that are settled."""
    return settled(several(Weather))(seed).run()


STORMS: dict[str, Callable[[int], Judgement]] = {
    "every-fault": every_fault,
    "changes": changes,
    "returns": returns,
    "shorter-first": shorter_first,
    "split-brain": split_brain,
    "small-steps": small_steps,
    "several-every-fault": several_every_fault,
    "several-changes": several_changes,
    "slots-every-fault": slots_every_fault,
    "slots-changes": slots_changes,
    "several-returns": several_returns,
    "several-shorter-first": several_shorter_first,
    "several-split-brain": several_split_brain,
    "several-small-steps": several_small_steps,
    "settled-every-fault": settled_every_fault,
    "settled-changes": settled_changes,
    "settled-several": settled_several,
}
