"""Names whose modules are imported when they are asked for: a package looks as if it had them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from limiters._support.lazy_names import lazily


@pytest.mark.parametrize(
    "module",
    ["dispatcher.errors", "dispatcher.events", "dispatcher.worker.errors", "limiters.errors"],
)
def test_a_public_module_behind_a_name_is_an_attribute_of_its_package(module: str) -> None:
    """Type checkers know it as one. Otherwise `except dispatcher.errors.BufferFullError` worked
    or raised AttributeError, by what was imported before."""
    package, _, name = module.rpartition(".")
    ask: Any = import_module(package).__getattr__

    assert ask(name) is import_module(module)


def test_a_private_module_and_one_of_another_package_are_no_attributes() -> None:
    ask, _ = lazily(
        "limiters", {"limiters._version": ["__version__"], "dispatcher.state": ["State"]}
    )

    for name in ("_version", "state", "dispatcher"):
        with pytest.raises(AttributeError, match=f"'limiters' has no attribute '{name}'"):
            ask(name)


def test_a_package_behind_a_module_of_a_name_is_an_attribute() -> None:
    ask, _ = lazily("limiters", {"limiters.leases.redis": ["RedisLeaseManager"]})

    assert ask("leases") is import_module("limiters.leases")
