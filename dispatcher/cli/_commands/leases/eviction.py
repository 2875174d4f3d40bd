"""`dispatcher leases --evict`: find the named instance, and evict it."""

from __future__ import annotations

import json
import sys

from dispatcher.cli._commands.leases.options import LeasesOptions
from dispatcher.cli._exit_codes import NotThereError
from dispatcher.cli._terminal.confirming import confirm
from dispatcher.cli._text.by_bound import held_of
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import of_partitions, share_of
from limiters.errors import DispatcherError
from limiters.leases import InstanceView, LeaseManager, LimitView

MOST_NAMED = 10


def evict(manager: LeaseManager, view: LimitView, options: LeasesOptions) -> None:
    """Evict the instance that the options name, after confirmation, and print what that means."""
    one = the_one(view, options.evict or "")
    if not options.yes:
        held = _held(view, one)
        confirm(
            f"Evict {_named(one)} from limit {printable(options.name)}? It holds {held}, and is "
            "granted nothing more until it is restarted.",
            "evicted",
        )
    if not manager.evict(one.instance):
        raise NotThereError(f"{_named(one)} has gone meanwhile; nothing was evicted")
    if options.json:
        evicted = {"evicted": one.instance, "label": one.label, "again": one.evicted}
        sys.stdout.write(json.dumps(evicted) + "\n")
        return
    again = "was evicted before, and still is" if one.evicted else "is evicted"
    sys.stdout.write(
        f"{_named(one)} {again}.\n"
        "What it holds comes back when it next asks, or when its lease ends. It is granted\n"
        "nothing more and goes on with what is reserved for it. Restart it to let it take part "
        "again.\n"
    )


def the_one(view: LimitView, given: str) -> InstanceView:
    """Return the instance with that name, the only one whose name begins so, or the one that runs
    there."""
    exact = [one for one in view.instances if one.instance == given]
    found = exact or [
        one
        for one in view.instances
        if given and (one.instance.startswith(given) or one.label == given)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise DispatcherError(
            f"{printable(given)!r} may be any of {len(found)}: {_list(found)}; "
            "give more of its name. Nothing was evicted"
        )
    there = f"there are {_list(view.instances)}" if view.instances else "there is none at present"
    raise NotThereError(f"no instance is called {printable(given)!r}; {there}")


def _held(view: LimitView, one: InstanceView) -> str:
    if len(view.bounds) == 1:
        return f"{of_partitions(view, one.held)} partitions ({share_of(one.held)})"
    both = zip(view.bounds, one.bounds, strict=True)
    return ", ".join(f"{held_of(it, own.held)} of {it.dimension}" for it, own in both)


def _list(instances: list[InstanceView] | tuple[InstanceView, ...]) -> str:
    named = ", ".join(_named(one) for one in instances[:MOST_NAMED])
    more = len(instances) - MOST_NAMED
    return f"{named} and {more:,} more" if more > 0 else named


def _named(one: InstanceView) -> str:
    label = f" ({printable(one.label)})" if one.label else ""
    return f"{printable(one.instance)}{label}"
