"""`dispatcher timeline create`: messages from arguments, or from lines of JSON on stdin."""

from __future__ import annotations

import io
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from dispatcher.cli._commands.timeline.completeness import check_complete
from dispatcher.cli._commands.timeline.incoming import TOO_DEEP, from_lines, message
from dispatcher.cli._commands.timeline.opening import opened
from dispatcher.cli._commands.timeline.options import CreateOptions
from dispatcher.cli._commands.timeline.wording import cropped, interrupted, summed_up, tally
from dispatcher.cli._exit_codes import PartlyDoneError
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.progress import Progress
from dispatcher.cli._text.showable import printable
from dispatcher.timeline import Duplicate, Invalid, Message, MessageOutcome, Timeline
from dispatcher.timeline import TimelineUnavailableError as Unavailable
from dispatcher.timeline.producer import Producer

AT_ONCE = 500

MOST_TOLD = 10
"""How many existing messages are reported one by one: a file that is created again has many."""

Numbered = tuple[int, Message | str]


def run(options: CreateOptions, call: Invocation) -> None:
    given = _given(options)
    with opened(options, new=options.create_topic, buckets=options.buckets) as timeline:
        _create(options, call, timeline, given)


def _given(options: CreateOptions) -> Iterable[Numbered]:
    if options.bodies:
        if options.id is not None and len(options.bodies) > 1:
            raise ValueError("--id is for one BODY, and there are more")
        return [
            (
                number,
                message(
                    _json(body) if options.body_json else body,
                    name=options.id,
                    at=options.at,
                    delay=options.delay,
                ),
            )
            for number, body in enumerate(options.bodies, 1)
        ]
    if options.id is not None or options.body_json:
        raise ValueError("--id and --body-json are for a BODY; a line of JSON has its own id")
    if sys.stdin.isatty():
        sys.stderr.write("a line of JSON for each message, until Ctrl-D:\n")
    if isinstance(sys.stdin, io.TextIOWrapper):  # a line that is no text is one bad line
        sys.stdin.reconfigure(errors="surrogateescape")
    return from_lines(sys.stdin, at=options.at, delay=options.delay)


def _json(body: str) -> Any:
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError(f"BODY is {TOO_DEEP}") from None
    except ValueError as error:
        shown = cropped(repr(body), 100)
        raise ValueError(f"BODY must be JSON, not {shown}: {error}") from None


def _create(
    options: CreateOptions, call: Invocation, timeline: Timeline, given: Iterable[Numbered]
) -> None:
    producer = timeline.producer(options.group)
    counts, there_before = Counter[str](), 0
    typed = not options.bodies and sys.stdin.isatty()
    call.interrupted = interrupted({"valid" if options.dry_run else "created": 0})
    with Progress("creating", len(options.bodies) or None, typed=typed) as progress:
        for some in _portions(given, 1 if typed else AT_ONCE):
            try:
                done = [] if options.dry_run else _created(producer, some)
            except Unavailable as error:
                if not counts:
                    raise
                raise PartlyDoneError(
                    f"{summed_up(counts)}, then it failed (messages that have ids of their own can "
                    f"be created again: existing ones are not changed): {error}"
                ) from error
            if options.dry_run:
                counts["valid"] += sum(isinstance(it, Message) for _, it in some)
            wrong = [Invalid(str(number), it) for number, it in some if isinstance(it, str)]
            counts.update(tally([*done, *wrong]))
            for outcome, line in _troubles(options, some, done):
                there_before += isinstance(outcome, Duplicate)
                if isinstance(outcome, Duplicate) and there_before > MOST_TOLD:
                    continue
                sys.stderr.write(f"\r\x1b[K{line}\n" if sys.stderr.isatty() else f"{line}\n")
            call.interrupted = interrupted(counts)
            progress.tell(counts.total())
    _tell(options, counts)


def _portions(given: Iterable[Numbered], at_once: int) -> Iterator[list[Numbered]]:
    rest = iter(given)
    while some := list(itertools.islice(rest, at_once)):
        yield some


def _created(producer: Producer, some: list[Numbered]) -> list[MessageOutcome]:
    good = [it for _, it in some if isinstance(it, Message)]
    return producer.create(good) if good else []


def _troubles(
    options: CreateOptions, some: list[Numbered], done: list[MessageOutcome]
) -> Iterator[tuple[MessageOutcome, str]]:
    """Return a line for each problem."""
    place = "body" if options.bodies else "line"
    outcomes = iter(done)
    for number, it in some:
        outcome = next(outcomes, None) if isinstance(it, Message) else Invalid("", it)
        if isinstance(outcome, Invalid):
            yield outcome, f"dispatcher: {place} {number}: {printable(outcome.reason)}"
        elif isinstance(outcome, Duplicate):
            yield (
                outcome,
                f"dispatcher: {place} {number}: {printable(outcome.id)} exists already, "
                f"{outcome.status.value}",
            )


def _tell(options: CreateOptions, counts: Counter[str]) -> None:
    wanted = "valid" if options.dry_run else "created"
    told = {wanted: counts[wanted], **counts}
    if options.json:
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.write(f"{summed_up(told)}\n")
    check_complete(counts, "created", "valid", "there before")
