"""Decide what to do with each message after its batch has ended. Pure."""

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
    """A handler returned something that is not a result for its messages."""


@dataclass(slots=True)
class Fates:
    """The messages of a batch, each in exactly one group."""

    done: list[Lease] = field(default_factory=list)
    again: dict[float, list[Lease]] = field(default_factory=dict)
    """Messages to retry, by the seconds after which they are due again, limited to what a Timeline
    allows."""
    dead: dict[str, list[Lease]] = field(default_factory=dict)
    """Dead messages, by the reason."""
    throttled: list[Lease] = field(default_factory=list)
    """Messages that the datastore refused: they wait in the Batcher, which pauses."""
    throttle: Throttled | None = None
    error: BaseException | None = None
    """An unexpected error of the handler, if there was one."""


def judge(
    batch: Sequence[Lease],
    error: BaseException | None,
    returned: object,
    policy: RetryPolicy,
) -> Fates:
    """Decide about the messages of `batch`, whose handler raised `error`, or `returned`
    something."""
    fates = Fates()
    # by error: messages that failed alike are due again together
    rules: dict[int, FailureRule] = {}
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
    """Return why a message is dead, in words."""
    said, kind = _words(error), type(error).__name__
    return f"attempt {message.attempt}, the last one: {f'{kind}: {said}' if said else kind}"


def _words(value: object) -> str:
    """Return the text of a user's object; "" if it raises."""
    try:
        return str(value)
    except BaseException:
        return ""


def _said(
    batch: Sequence[Lease], error: BaseException | None, returned: object
) -> list[BaseException | None]:
    """Return the error for each message, if any."""
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
