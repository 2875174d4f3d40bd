"""`dispatcher leases --evict`: finds the one instance that is meant, and evicts it."""

from __future__ import annotations

import json
import sys

from dispatcher.cli.options import printable
from limiters.errors import DispatcherError
from limiters.leases import LeaseManager, LimitView, MemberView

MOST_NAMED = 10


def evict(manager: LeaseManager, view: LimitView, given: str, *, as_json: bool) -> None:
    """Evicts the instance that `given` names, and says what that means."""
    member = the_one(view, given)
    if not manager.evict(member.instance):
        raise DispatcherError(f"{_named(member)} has gone meanwhile; nothing was evicted")
    if as_json:
        evicted = {"evicted": member.instance, "label": member.label, "again": member.evicted}
        sys.stdout.write(json.dumps(evicted) + "\n")
        return
    again = "was evicted before, and still is" if member.evicted else "is evicted"
    sys.stdout.write(
        f"{_named(member)} {again}.\n"
        "What it holds comes back when it next asks, or when its lease ends. It is granted\n"
        "nothing more and goes on with what is reserved for it. Restart it to let it take part "
        "again.\n"
    )


def the_one(view: LimitView, given: str) -> MemberView:
    """The instance with that name, or whose name begins so, or which runs there."""
    exact = [member for member in view.members if member.instance == given]
    found = exact or [
        member
        for member in view.members
        if given and (member.instance.startswith(given) or member.label == given)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise DispatcherError(
            f"{printable(given)!r} may be any of {len(found)}: {_list(found)}; "
            "say more of its name. Nothing was evicted"
        )
    there = f"there are {_list(view.members)}" if view.members else "there is none at present"
    raise DispatcherError(f"no instance is called {printable(given)!r}; {there}")


def _list(members: list[MemberView] | tuple[MemberView, ...]) -> str:
    named = ", ".join(_named(member) for member in members[:MOST_NAMED])
    more = len(members) - MOST_NAMED
    return f"{named} and {more:,} more" if more > 0 else named


def _named(member: MemberView) -> str:
    return f"{printable(member.instance)} ({printable(member.label)})"
