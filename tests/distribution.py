"""Which test runs when, and on which of several processes.

What takes longest begins first, so that no process is alone with it in the end. What shares
something that takes long to start stays together: the tests of a folder that share one Spark, and
those of a module; but tests of whole clusters take so long that each goes to a free process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

FOLDERS = ("tests/acceptance/", "tests/spark/", "tests/integration/", "tests/simulation/")
"""In the order in which they run; the rest, unit tests above all, fills the gaps at the end."""

ALONE = ("tests/acceptance/test_", "tests/simulation/")
"""Each test here may run in another process than those of its module,"""

TOGETHER = ("tests/acceptance/test_spark_faults.py", "tests/acceptance/test_packaging.py")
"""but not these: one cluster of Spark at a time; one environment for all."""


def begins(place: str, timeout: float) -> tuple[float, int]:
    """The sort key of tests: those that ask for most time first, then by folder.

    >>> begins("tests/acceptance/test_soak.py::test_a", 900) < begins("tests/unit/a.py::b", 0)
    True
    """
    ranks = (rank for rank, folder in enumerate(FOLDERS) if place.startswith(folder))
    return -timeout, next(ranks, len(FOLDERS))


def together(place: str) -> str:
    """The group of tests that run one after the other in one process, by node id.

    >>> together("tests/spark/test_a.py::test_b"), together("tests/unit/test_a.py::test_b[x::y]")
    ('tests/spark', 'tests/unit/test_a.py')
    >>> together("tests/simulation/test_storms.py::test_a[1]")
    'tests/simulation/test_storms.py::test_a[1]'
    """
    module = place.partition("::")[0]
    if place.startswith(ALONE) and module not in TOGETHER:
        # The programs of a document, or of a folder, that start Spark: one at a time.
        return f"{module}: Spark" if "spark" in place.lower() else place
    if not place.startswith("tests/spark/"):
        return module
    # Two chains: one would still run when all else has ended.
    return module.rpartition("/")[0]


def asked_for(item: pytest.Item) -> float:
    """The time-out that the test or its module states, in seconds; 0 if none."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark and mark.args else 0.0


def scheduler(config: pytest.Config, log: object) -> Any:
    """Give whatever runs together to the next free process, in the order of the collection."""
    config.option.loadscopereorder = False
    made = LoadScopeScheduling(config, log)
    made._split_scope = together
    made.remove_node = partial(_remove_node, made, made.remove_node)
    return made


def _remove_node(made: Any, remove: Callable[[object], str | None], node: object) -> str | None:
    """A process has ended. The test that ran in it has failed: xdist would give it to the next
    process, and end that one, too."""
    running = [
        (unit, test)
        for unit in made.assigned_work[node].values()
        for test, completed in unit.items()
        if not completed
    ]
    if not running:
        return remove(node)
    unit, crashed = running[0]
    unit[crashed] = True
    remove(node)
    return str(crashed)
