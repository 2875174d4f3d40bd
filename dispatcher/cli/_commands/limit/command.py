"""`dispatcher limit show` and `delete`: the terms of a limit that many instances share."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from dispatcher.cli._commands.connecting import lease_manager
from dispatcher.cli._commands.limit.learned import learned_by, learned_page
from dispatcher.cli._commands.limit.options import LimitDeleteOptions, LimitShowOptions
from dispatcher.cli._commands.missing import no_limit
from dispatcher.cli._exit_codes import NotThereError
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.confirming import confirm
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.by_bound import bound_as_json, held_of, uses
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import (
    grants,
    of_partitions,
    share_of,
    skew,
    standing,
    terms_of,
    took_part,
    uncertainty,
    waiters,
    written,
)
from limiters.errors import DamagedLimitError
from limiters.leases import LimitView

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager


def show_limit(options: LimitShowOptions, call: Invocation) -> None:
    """Show the terms of a limit and its state."""
    with lease_manager(options) as manager:
        view = manager.look()
        if view is None:
            raise no_limit(manager.where, options.name, options)
    if options.json:
        sys.stdout.write(json.dumps(as_json(options.name, view)) + "\n")
        return
    rows = [("limit", printable(options.name)), *terms_of(view), *_state(view)]
    show(TablePage(("", ""), [Row(row) for row in rows], foot=uncertainty(view)))
    if view.terms.layout:  # as `limit set` takes it: in one line, which can be copied
        sys.stdout.write(f"\ncapacity  {printable(written(view))}\n")
    learned = learned_by(view)
    if learned:
        show(learned_page(learned))


def _free(view: LimitView) -> list[tuple[str, str]]:
    if not view.terms.layout:
        return [("free", f"{of_partitions(view, view.free)} ({share_of(view.free)})")]
    first, *others = (
        f"{held_of(one, max(0.0, one.free))} of {one.dimension}" for one in view.bounds
    )
    return [("free", first), *(("", one) for one in others)]


def _state(view: LimitView) -> list[tuple[str, str]]:
    odd = sorted(state for one in view.instances if (state := standing(one)))
    instances = f"{len(view.instances):,}" + "".join(
        f", {odd.count(state)} {state}" for state in dict.fromkeys(odd)
    )
    return [
        *_free(view),
        ("instances", instances),
        ("grants", grants(view)),
        *(("permits", said) for said in waiters(view)),
        *(("clock", said) for said in skew(view)),
    ]


def as_json(name: str, view: LimitView) -> dict[str, object]:
    """Return the view of a limit as JSON for scripts. Durations are in seconds."""
    return {
        "name": name,
        "shared_capacity": view.terms.capacity,
        "capacity_in_force": view.capacity,
        "rising_per_second": view.rising,
        "factor": view.terms.factor,
        "partitions": view.partitions,
        "period": view.terms.period / 1000,
        "lease_time": view.terms.lease / 1000,
        "version": view.terms.version,
        "free": round(view.free * view.partitions, 6),
        "instances": len(view.instances),
        "uncertain": view.uncertain_ms / 1000,
        "cause": view.cause,
        "clock_skew": view.skew_ms / 1000,
        "bounds": [bound_as_json(one) for one in uses(view)],
        "learned": [asdict(one) for one in learned_by(view)],
    }


def delete_limit(options: LimitDeleteOptions, call: Invocation) -> None:
    """Delete a limit, or the keys that an older version has stored of it."""
    if options.old_format:
        _delete_old_format(options)
        return
    name = printable(options.name)
    with lease_manager(options) as manager:
        known = _known_of(manager, options)
        if not options.yes:
            confirm(f"Delete limit {name} in {manager.where}? {known}", "deleted")
        if not manager.delete():
            raise no_limit(manager.where, options.name, options)
    sys.stdout.write(
        f"limit {name} is deleted.\nAn instance that still runs makes it again with its own terms, "
        "and then\nnothing new is granted for a lease and a period.\n"
    )


def _known_of(manager: RedisLeaseManager, options: LimitDeleteOptions) -> str:
    """Return how many instances use a limit that is to be deleted, for the question."""
    try:
        view = manager.look()
    except DamagedLimitError:
        return "It is damaged, so the number of its instances is unknown."
    if view is None:
        raise no_limit(manager.where, options.name, options)
    return took_part(view)


def _delete_old_format(options: LimitDeleteOptions) -> None:
    name = printable(options.name)
    with lease_manager(options) as manager:
        if not options.yes:
            confirm(
                f"Delete what an older version of this library has stored of limit {name} in "
                f"{manager.where}? Stop the instances of that version first: they would spend "
                "on top of the limit.",
                "deleted",
            )
        if not manager.delete_old_format():
            raise NotThereError(
                f"nothing of an older format is stored of limit {name!r} in {manager.where}"
            )
    sys.stdout.write(f"what an older version has stored of limit {name} is deleted.\n")
