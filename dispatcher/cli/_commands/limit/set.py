"""`dispatcher limit set`: creates a limit, or changes it for all instances."""

from __future__ import annotations

import sys

from dispatcher.cli._commands.connecting import lease_manager
from dispatcher.cli._commands.limit.options import CHANGE, NEW, LimitSetOptions
from dispatcher.cli._commands.missing import no_limit
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.moments import duration
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import grants, terms_of
from limiters.errors import DamagedLimitError, DispatcherError
from limiters.leases import LimitView
from limiters.leases._messages import ramp_of


def run(options: LimitSetOptions, call: Invocation) -> None:
    """Sets it, and tells what it was and is."""
    change = CHANGE.given(options)
    ramp = change["ramp"] = ramp_of(change["ramp"])
    if all(value is None for name, value in change.items() if name != "ramp"):
        *flags, last = (flag for name, flag in CHANGE.flags.items() if name != "ramp")
        if ramp is not None:
            raise ValueError("--ramp goes with --shared-capacity: say to what it is to rise")
        raise ValueError(f"say what to change: {', '.join(flags)} or {last}")
    with lease_manager(options) as manager:
        damaged = None
        try:
            before = manager.look()
        except DamagedLimitError as error:
            before, damaged = None, error
        is_new = not manager.set_terms(**change)  # or what is stored of its terms cannot be read
        if is_new:
            if change["capacity"] is None:
                raise damaged or no_limit(manager.where, options.name, options)
            change = {
                name: getattr(NEW, name) if value is None else value
                for name, value in change.items()
            }
            manager.set_terms(**change)
        now = manager.look()
        if now is None:
            raise DispatcherError(
                f"limit {printable(options.name)!r} was deleted at the same moment; set it again"
            )
    if damaged is not None:
        sys.stdout.write(
            "What was stored of it could not be read: it starts over, and what was not said now is "
            f"{'as for a new limit' if is_new else 'as it was'}.\n\n"
        )
    _tell(printable(options.name), before, now, is_new=is_new, ramped=ramp is not None)


def _tell(
    name: str, before: LimitView | None, now: LimitView, *, is_new: bool, ramped: bool
) -> None:
    is_now = terms_of(now)
    was = terms_of(before) if before else [("", "-")] * len(is_now)
    rows = [Row((label, old, new)) for (label, new), (_, old) in zip(is_now, was, strict=True)]
    outcome = "is new" if is_new else "is as it was" if was == is_now else "was changed"
    title = f"limit {name} {outcome}"
    show(TablePage(("", "was", "is"), rows, (title, ""), ("", *_what_follows(before, now, ramped))))


def _what_follows(before: LimitView | None, now: LimitView, ramped: bool) -> list[str]:
    lines = ["All instances follow within two sync intervals, idle ones with their next call."]
    wait = duration(now.uncertain_ms / 1000)
    if before is not None and not before.terms.agrees(now.terms):
        lines += [
            "Another period or lease time waits until the leases that are out have ended:",
            f"nothing new is granted for {wait}. Instances keep what they hold.",
        ]
    elif now.uncertain_ms or now.unconfirmed_ms:
        lines.append(f"It grants {grants(now)}.")
    elif before is None:
        lines.append("It grants at once: no instance can hold anything of it.")
    if ramped and not now.rising:
        lines.append("The ramp changes nothing: only a raised capacity rises.")
    return lines
