"""Parse the input of `create`: arguments, or lines of JSON. Pure."""

from __future__ import annotations

import argparse
import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from dispatcher.cli._text.moments import When, seconds_of, when_of
from dispatcher.timeline import Message
from limiters._support.validation import UNSHOWN, ArgumentError

Read = TypeVar("Read")

TOO_DEEP = "not JSON that can be read: it is nested too deep"

KEYS = ("body", "body_base64", "id", "at", "delay")


def message(body: Any, *, name: str | None, at: When | None, delay: float | None) -> Message:
    """Return a message; relative times are left to the server's clock."""
    if at is not None and at.relative:
        if at.ms < 0:
            raise ArgumentError("at", UNSHOWN, "not be before now")
        return Message(body, id=name, delay=at.ms / 1000)
    return Message(body, id=name, at=None if at is None else at.ms, delay=delay)


def from_lines(
    lines: Iterable[str], *, at: When | None = None, delay: float | None = None
) -> Iterator[tuple[int, Message | str]]:
    """Parse lines. Return the number of each line that is not empty, and its message or what is
    wrong with it. Messages without a time get the one in the arguments."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, _from_line(line, at, delay)
            except RecursionError:  # the possible depth depends on the caller
                yield number, TOO_DEEP
            except ValueError as error:
                yield number, str(error)


def _from_line(line: str, at: When | None, delay: float | None) -> Message:
    try:
        line.encode()
    except UnicodeEncodeError:
        raise ValueError("not UTF-8") from None
    try:
        given = json.loads(line.strip())
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(given, dict):
        raise ValueError(f'each line must be like {{"body": ...}}, not {_short(given)}')
    unknown = [key for key in given if key not in KEYS]
    if unknown:
        raise ValueError(f"there is no {_short(unknown[0])}; there are {', '.join(KEYS)}")
    if ("body" in given) == ("body_base64" in given):
        raise ValueError("there must be a body, or a body_base64")
    if "at" in given and "delay" in given:
        raise ValueError("delay must be left out if there is an at")
    if "at" in given or "delay" in given:
        at, delay = _at(given.get("at")), _delay(given.get("delay"))
    return message(_body(given), name=_identity(given.get("id")), at=at, delay=delay)


def _body(given: dict[str, Any]) -> Any:
    if "body" in given:
        return given["body"]
    try:
        return base64.b64decode(given["body_base64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ValueError("body_base64 must be base64") from None


def _identity(given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise ValueError(f"id must be a text, not {_short(given)}")
    return given


def _at(given: object) -> When | None:
    if given is None:
        return None
    if isinstance(given, (str, int)) and not isinstance(given, bool):
        return _read(when_of, "at", str(given))
    raise ValueError(f"at must be a time or epoch milliseconds, not {_short(given)}")


def _delay(given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, (str, int, float)) and not isinstance(given, bool):
        return _read(seconds_of, "delay", str(given))
    raise ValueError(f"delay must be seconds, not {_short(given)}")


def _read(read: Callable[[str], Read], name: str, text: str) -> Read:
    try:
        return read(text)
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"{name} is {_short(text)}: {error}") from None


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
