"""`dispatcher limit set`: creates a limit, or changes it for all instances."""

from __future__ import annotations

from dispatcher.cli._commands.connecting import lease_manager, no_limit
from dispatcher.cli._commands.limit.options import LimitSetOptions
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.moments import duration
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import grants, terms_of
from limiters._support.validation import amount
from limiters.errors import LeaseManagerError
from limiters.leases import LimitView
from limiters.leases._messages import (
    lease_seconds,
    period_seconds,
    ramp_of,
    shared_amount,
)

FACTOR, PERIOD, LEASE_TIME = 1.0, 1.0, 5.0
"""What a new limit has unless it is said, as with SharedResource and RedisLeaseManager."""

CHANGES = ("shared_capacity", "factor", "period", "lease_time")


def run(options: LimitSetOptions, call: Invocation) -> None:
    """Sets it, and tells what it was and is."""
    if all(getattr(options, name) is None for name in CHANGES):
        raise ValueError(
            "say what to change: --shared-capacity, --factor, --period or --lease-time"
        )
    shared, factor = options.shared_capacity, options.factor
    shared = None if shared is None else shared_amount("shared_capacity", shared)
    factor = None if factor is None else amount("factor", factor)
    period = None if options.period is None else period_seconds(options.period)
    lease = None if options.lease_time is None else lease_seconds(options.lease_time)
    ramp = ramp_of(options.ramp)
    with lease_manager(options) as manager:
        before = manager.look()
        if before is None:
            if shared is None:
                raise no_limit(manager, options)
            factor, period, lease = factor or FACTOR, period or PERIOD, lease or LEASE_TIME
        if not manager.set_terms(
            capacity=shared, factor=factor, period=period, lease_time=lease, ramp=ramp
        ):
            raise _gone(options)
        now = manager.look()
        if now is None:
            raise _gone(options)
    _tell(printable(options.name), before, now, ramped=ramp is not None)


def _gone(options: LimitSetOptions) -> LeaseManagerError:
    return LeaseManagerError(
        f"limit {printable(options.name)!r} was deleted at the same moment; set it again"
    )


def _tell(name: str, before: LimitView | None, now: LimitView, *, ramped: bool) -> None:
    is_now = terms_of(now)
    was = terms_of(before) if before else [("", "-")] * len(is_now)
    rows = [Row((label, old, new)) for (label, new), (_, old) in zip(is_now, was, strict=True)]
    outcome = "is new" if before is None else "is as it was" if was == is_now else "was changed"
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
