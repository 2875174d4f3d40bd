"""Views of limits and instances, made by hand."""

from __future__ import annotations

from typing import Any

from limiters.leases import InstanceView, LimitView
from limiters.leases._messages import Terms

TERMS = Terms(20_000, 1_000, 1_000, 5_000)


def instance(name: str, **known: Any) -> InstanceView:
    """One that has nothing to do, but for what is known."""
    return InstanceView(
        **{
            "instance": name,
            "label": f"worker-{name}:1",
            "held": 0.0,
            "share": 0.0,
            "lease_ms": 4_000,
            "seen_ms": 100,
            "need": 0.0,
            "spent": 0.0,
            "waits_for": 0.0,
            "waits_ms": 0,
            "permit": 0.0,
            "weight": 1.0,
            "reserved": 0.0,
            "evicted": False,
            **known,
        }
    )


def limit(*instances: InstanceView, terms: Terms = TERMS, **known: Any) -> LimitView:
    """One in which nothing is out of the ordinary, but for what is known."""
    return LimitView(
        **{
            "terms": terms,
            "capacity": terms.capacity,
            "rising": 0.0,
            "free": 1 - sum(one.held for one in instances),
            "uncertain_ms": 0,
            "cause": "",
            "skew_ms": 0,
            "instances": instances,
            **known,
        }
    )
