"""Fields that an instance sends in Python arrive in Lua: each one is declared for both."""

from __future__ import annotations

from dataclasses import fields

from limiters.leases._format import REQUEST, REQUEST_BOUND
from limiters.leases._messages import BoundRequest, BoundTerms, Request, Terms


def test_all_fields_of_a_request_are_sent() -> None:
    """One that is missing reached the coordinator in Python, and silently not the one in Redis."""
    declared = {field.name for kind in (Request, Terms) for field in fields(kind)}
    assert {field.name for field in REQUEST} == declared - {"terms", "bounds"}
    of_bound = {field.name for kind in (BoundRequest, BoundTerms) for field in fields(kind)}
    assert {field.name for field in REQUEST_BOUND} == of_bound
