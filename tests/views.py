"""Views of limits and instances, made by hand."""

from __future__ import annotations

from typing import Any

from limiters.leases import InstanceView, LimitView
from limiters.leases._messages import Terms
from limiters.leases.protocol import BoundView, HoldingView

_OF_HOLDING = frozenset(HoldingView.__dataclass_fields__)
TERMS = Terms.scalar(20_000, 1_000, 1_000, 5_000)


def instance(name: str, **known: Any) -> InstanceView:
    """One that has nothing to do, but for what is known."""
    holding = {name: known.pop(name) for name in [*known] if name in _OF_HOLDING}
    return InstanceView(
        **{
            "instance": name,
            "label": f"worker-{name}:1",
            "bounds": (HoldingView(**holding),),
            "lease_ms": 4_000,
            "seen_ms": 100,
            "waits_ms": 0,
            "weight": 1.0,
            "evicted": False,
            **known,
        }
    )


def limit(*instances: InstanceView, terms: Terms = TERMS, **known: Any) -> LimitView:
    """One in which nothing is out of the ordinary, but for what is known."""
    of_bound: dict[str, Any] = {
        name: known.pop(name) for name in ("capacity", "rising", "free") if name in known
    }
    usual: dict[str, Any] = {
        "capacity": terms.capacity,
        "free": 1 - sum(one.held for one in instances),
    }
    return LimitView(
        **{
            "terms": terms,
            "bounds": (BoundView(terms.bounds[0], **{**usual, **of_bound}),),
            "uncertain_ms": 0,
            "cause": "",
            "skew_ms": 0,
            "instances": instances,
            **known,
        }
    )
