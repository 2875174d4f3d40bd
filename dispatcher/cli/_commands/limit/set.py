"""`dispatcher limit set`: creates a limit, or changes it for all instances."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dispatcher.cli._commands.connecting import lease_manager
from dispatcher.cli._commands.limit.options import CHANGE, NEW, LimitSetOptions
from dispatcher.cli._commands.limit.ramp import Ramp, by_second, check
from dispatcher.cli._commands.missing import no_limit
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.confirming import confirm
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import capacity, grants, terms_of, took_part
from limiters._support.validation import ArgumentError, in_seconds, named
from limiters.errors import DamagedLimitError, DispatcherError
from limiters.leases import LimitView
from limiters.leases._operator import TermsChange
from limiters.limits import Limits, read_limits

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager


def run(options: LimitSetOptions, call: Invocation) -> None:
    """Create or change a limit, and show its terms before and after."""
    change, ramp = CHANGE.given(options), options.ramp
    del change["ramp"]
    _check_said(change, ramp, options)
    with lease_manager(options) as manager, named(CHANGE.flags):
        damaged = None
        try:
            before = manager.look()
        except DamagedLimitError as error:
            before, damaged = None, error
        if options.start_over:
            change = _whole(change)
            if before is not None and not options.yes:
                _ask(manager, change, before, options)
        if before is None and damaged is None:
            _check_complete(change, options)
        changed = before is not None and _changed(manager, change, ramp, before)
        is_new = not changed and not _set_as_stored(manager, change)
        if is_new:
            if change["capacity"] is None:
                raise damaged or no_limit(manager.where, options.name, options)
            manager.set_terms(**_new(change))
        now = manager.look()
        if now is None:
            raise DispatcherError(
                f"limit {printable(options.name)!r} was deleted at the same moment; set it again"
            )
    if damaged is not None:
        sys.stdout.write(
            "The stored limit could not be read, so it starts over. Terms that were not given are "
            f"{'those of a new limit' if is_new else 'as they were'}.\n\n"
        )
    _show_change(printable(options.name), before, now, is_new=is_new, ramped=ramp is not None)


def _check_said(change: Mapping[str, Any], ramp: Ramp | None, options: LimitSetOptions) -> None:
    with named(CHANGE.flags):
        check(ramp)
    if change["capacity"] is None and ramp is not None:
        raise ValueError("--ramp goes with --shared-capacity: say to what it is to rise")
    if change["capacity"] is None and options.start_over:
        raise ValueError("--start-over goes with --shared-capacity: say all dimensions")
    if all(value is None for value in change.values()):
        *flags, last = (flag for name, flag in CHANGE.flags.items() if name != "ramp")
        raise ValueError(f"say what to change: {', '.join(flags)} or {last}")


def _ask(
    manager: RedisLeaseManager,
    change: Mapping[str, Any],
    before: LimitView,
    options: LimitSetOptions,
) -> None:
    """Ask before a limit is given other dimensions, unless it keeps its own after all."""
    if TermsChange(**change).of(before.terms).layout == before.terms.layout:
        return
    confirm(
        f"Start limit {printable(options.name)} in {manager.where} over? It is {capacity(before)} "
        f"now, and {took_part(before)} Those with other dimensions are refused until they are "
        "restarted.",
        "changed",
    )


def _check_complete(change: Mapping[str, Any], options: LimitSetOptions) -> None:
    """Refuse a change of a limit that does not exist, also where its name was mistyped."""
    try:
        _limits(change["capacity"])
    except ArgumentError as error:
        advice = f"there is no limit {printable(options.name)!r} yet that it could change"
        raise ArgumentError(
            error.parameter, error.value, error.requirement, f"{error.advice}; {advice}"
        ) from None


def _changed(
    manager: RedisLeaseManager, change: dict[str, Any], ramp: Ramp | None, before: LimitView
) -> bool:
    """Change a limit that was there. Return whether it still was."""
    if ramp is not None:
        said = TermsChange(**change).of(before.terms)
        change = {**change, "ramp": by_second(ramp, said, before) or None}
    return manager.set_terms(**change)


def _set_as_stored(manager: RedisLeaseManager, change: Mapping[str, Any]) -> bool:
    """Change a capacity that is a number, of a limit of which only the terms may be readable.
    Return whether the limit is there."""
    return not isinstance(_limits(change["capacity"]), Limits) and manager.set_terms(**change)


def _new(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return all terms of a new limit."""
    limits = _limits(change["capacity"])
    if isinstance(limits, Limits):
        return {**change, "capacity": limits, "lease_time": change["lease_time"] or NEW.lease_time}
    usual = {"period": NEW.period, "lease_time": NEW.lease_time}
    if change["parts"] is None:
        usual["factor"] = NEW.factor
    return {name: usual.get(name) if value is None else value for name, value in change.items()}


def _whole(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change that sets all dimensions of a limit."""
    limits = _limits(change["capacity"])
    if isinstance(limits, Limits):
        return {**change, "capacity": limits}
    period = change["period"] or in_seconds(NEW.period)
    return {**change, "capacity": Limits.of(limits, period), "period": None}


def _limits(said: Any) -> Any:
    return read_limits("capacity", said) if isinstance(said, str) else said


def _show_change(
    name: str, before: LimitView | None, now: LimitView, *, is_new: bool, ramped: bool
) -> None:
    is_now, was = terms_of(now), dict(terms_of(before)) if before else {}
    gone = [(label, old) for label, old in was.items() if label not in dict(is_now)]
    rows = [Row((label, was.get(label, "-"), new)) for label, new in is_now]
    rows += [Row((label, old, "-")) for label, old in gone]
    outcome = "is new" if is_new else "is as it was" if was == dict(is_now) else "was changed"
    title = f"limit {name} {outcome}"
    show(TablePage(("", "was", "is"), rows, (title, ""), ("", *_what_follows(before, now, ramped))))


def _what_follows(before: LimitView | None, now: LimitView, ramped: bool) -> list[str]:
    lines = ["All instances follow within two sync intervals, idle ones with their next call."]
    waits = f"It grants {grants(now)}."
    if before is not None and before.terms.layout != now.terms.layout:
        lines += [
            "It has other dimensions: it starts over when the leases that are out have ended.",
            "Instances that were made with the dimensions of before are refused: restart them",
            "with the new ones.",
            waits,
        ]
    elif before is not None and not before.terms.agrees(now.terms):
        lines += [
            "Another period, lease time or longest call waits until the leases that are out",
            "have ended. Instances keep what they hold.",
            waits,
        ]
    elif now.uncertain_ms or now.unconfirmed_ms:
        lines.append(waits)
    elif before is None:
        lines.append("It grants immediately: no instance can hold any of it.")
    if ramped and not any(one.rising for one in now.bounds):
        lines.append("The ramp changes nothing: only a raised capacity rises.")
    return lines
