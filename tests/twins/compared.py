"""The answers and the data of two implementations as plain values, and their differences."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from limiters.leases._ledger import Ledger


def plain(value: Any) -> Any:
    """Return plain values that show what differs."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Ledger):
        return [(float(at), cost) for at, cost in value.entries]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Return the places at which two plain values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line
            for name in sorted({*one, *other}, key=str)
            for line in differences(one.get(name), other.get(name), f"{path}.{name}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line
            for at, pair in enumerate(zip(one, other, strict=True))
            for line in differences(*pair, f"{path}[{at}]")
        ]
    return [] if one == other else [f"{path}: {one!r} in Python, {other!r} in Lua"]
