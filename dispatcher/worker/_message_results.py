"""What becomes of each message when its batch has ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher._failure_rule import FailureRule, partial
from dispatcher._retry import RetryPolicy
from dispatcher.outcomes import PartialFailure, Reject, Throttled
from dispatcher.timeline import Lease
from dispatcher.timeline._encoding.times import LONGEST
from limiters.errors import DispatcherError


class HandlerReturnError(DispatcherError, TypeError):
    """A handler returned something that says nothing about its messages."""


@dataclass(slots=True)
class Fates:
    """Each message of the batch is in exactly one of these."""

    done: list[Lease] = field(default_factory=list)
    again: dict[float, list[Lease]] = field(default_factory=dict)
    """By the seconds after which they are due again, as many as a Timeline allows at most."""
    dead: dict[str, list[Lease]] = field(default_factory=dict)
    """By the reason."""
    throttled: list[Lease] = field(default_factory=list)
    """The datastore refused them: they wait in the Batcher, which pauses."""
    throttle: Throttled | None = None
    error: BaseException | None = None
    """One that the handler did not foresee, if there was one."""


def judge(
    batch: Sequence[Lease],
    error: BaseException | None,
    returned: object,
    policy: RetryPolicy,
) -> Fates:
    """What becomes of `batch`, whose handler raised `error`, or `returned` something."""
    fates = Fates()
    rules: dict[int, FailureRule] = {}  # by error: those that failed alike come back together
    for message, wrong in zip(batch, _said(batch, error, returned), strict=True):
        if wrong is None:
            fates.done.append(message)
            continue
        rule = rules.get(id(wrong)) or rules.setdefault(id(wrong), FailureRule(wrong, policy))
        if isinstance(wrong, Throttled):
            fates.throttled.append(message)
            fates.throttle = wrong
            continue
        if not rule.expected:
            fates.error = wrong
        delay = rule.delay(message.attempt)
        if delay is not None:
            fates.again.setdefault(min(delay, LONGEST), []).append(message)
        elif isinstance(wrong, Reject):
            fates.dead.setdefault(_words(wrong.reason) or "rejected", []).append(message)
        else:
            fates.dead.setdefault(reason_of(message, wrong), []).append(message)
    return fates


def reason_of(message: Lease, error: BaseException) -> str:
    """Why it is dead, in words."""
    said, kind = _words(error), type(error).__name__
    return f"attempt {message.attempt}, the last one: {f'{kind}: {said}' if said else kind}"


def _words(value: object) -> str:
    """What a user's object says of itself; "" if it is unable to."""
    try:
        return str(value)
    except BaseException:
        return ""


def _said(
    batch: Sequence[Lease], error: BaseException | None, returned: object
) -> list[BaseException | None]:
    """What was said of each."""
    if isinstance(error, PartialFailure):
        failed, cause = partial(batch, error, "messages")
        return [cause if id(message) in failed else None for message in batch]
    if error is not None:
        return [error] * len(batch)
    if returned is None:
        return [None] * len(batch)
    return _mapped(batch, returned)


def _mapped(batch: Sequence[Lease], returned: object) -> list[BaseException | None]:
    wrong = ""
    if not isinstance(returned, Mapping):
        wrong = f"and not {type(returned).__name__}"
    elif strangers := set(returned) - {message.id for message in batch}:
        wrong = f"and {next(iter(strangers))!r} is none of this batch"
    elif strange := [one for one in returned.values() if not _is_an_answer(one)]:
        wrong = f"and not to {strange[0]!r}"
    if wrong:
        said = HandlerReturnError(
            "a handler returns None, or a mapping of the ids of messages that failed to the "
            f"exceptions that say why, {wrong}; the whole batch counts as failed"
        )
        return [said] * len(batch)
    assert isinstance(returned, Mapping)
    return [returned.get(message.id) for message in batch]


def _is_an_answer(value: object) -> bool:
    return value is None or (
        isinstance(value, BaseException) and not isinstance(value, PartialFailure)
    )
