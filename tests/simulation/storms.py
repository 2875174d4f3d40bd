"""The storms: each judges a cluster run from a seed. Some seeds in `make test`, many in
`make storms`."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.judge import Judgement
from tests.simulation.weather import SERVER_FAULTS, Changes, Weather


def every_fault(seed: int) -> Judgement:
    """All faults that the design covers: no window is over."""
    return Weather(seed).run()


def changes(seed: int) -> Judgement:
    """Nothing fails; capacity and demand change, instances come and go."""
    return Changes(seed).run()


def returns(seed: int) -> Judgement:
    """The address also leads back to servers that were in charge before: exception X1."""
    return Weather(seed, (*SERVER_FAULTS, *["return"] * 8, *["other"] * 4)).run()


STORMS: dict[str, Callable[[int], Judgement]] = {
    "every-fault": every_fault,
    "changes": changes,
    "returns": returns,
}
