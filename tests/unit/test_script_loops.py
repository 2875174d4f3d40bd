"""No script has a loop that what is stored could keep alive: Redis serves no client meanwhile, and
a script that has written cannot be killed.

Each loop counts, to a number that is known when it begins: of lengths, constants and arguments. Or
it goes through a list that does not grow meanwhile.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path for top in ("dispatcher", "limiters") for path in (ROOT / top).rglob("*.lua"))
TOKEN = re.compile(
    r"--[^\n]*|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|[A-Za-z_]\w*|[\d.]+|\.\.+|[=~<>]=|\S"
)
OPENING, PURE = {"function", "do", "then", "repeat"}, {"math", "floor", "ceil", "min", "max", "abs"}
HALVING = {"count.lua": {"complete"}}
"""Functions that call themselves, each time for half of what they were called for."""


class Loop(NamedTuple):
    """One loop: its head, from `for` to `do`, and its body."""

    head: list[str]
    body: list[str]


def tokens_of(text: str) -> list[str]:
    return [one for one in TOKEN.findall(text) if not one.startswith("--")]


def body_from(tokens: list[str], start: int) -> list[str]:
    """Up to the `end` of the block that begins before `start`."""
    depth = 1
    for at in range(start, len(tokens)):
        if tokens[at] in OPENING and not (tokens[at] == "then" and is_elseif(tokens, at)):
            depth += 1
        elif tokens[at] == "end":
            depth -= 1
            if not depth:
                return tokens[start:at]
    raise AssertionError("a block without an end")


def is_elseif(tokens: list[str], at: int) -> bool:
    while tokens[at] not in ("if", "elseif"):
        at -= 1
    return tokens[at] == "elseif"


def loops_in(tokens: list[str]) -> Iterator[Loop]:
    for at, token in enumerate(tokens):
        if token == "for":
            start = tokens.index("do", at)
            yield Loop(tokens[at + 1 : start], body_from(tokens, start + 1))


def assigned(tokens: list[str], name: str) -> list[list[str]]:
    """The expressions that `name` is set to; for a parameter, an unknown one."""
    found = []
    for at, token in enumerate(tokens):
        if token != name or tokens[at - 1] in (".", ":"):
            continue
        names = at
        while tokens[names - 1] == "," and tokens[names - 2].isidentifier():
            names -= 2
        place, ends = (at - names) // 2, at + 1
        while ends + 1 < len(tokens) and tokens[ends] == ",":
            ends += 2
        if ends < len(tokens) and tokens[ends] == "=" and tokens[names - 1] not in ("{", "("):
            found.append(expression(tokens, ends + 1, place))
        elif tokens[names - 1] == "(" and "function" in (tokens[names - 2], tokens[names - 3]):
            found.append(["unknown"])
    return found


def expression(tokens: list[str], start: int, place: int) -> list[str]:
    """The one at `place` of those that are separated by commas."""
    depth, at, begins = 0, start, start
    while at < len(tokens):
        token = tokens[at]
        depth += (token in "([{") - (token in ")]}")
        is_next = (
            depth == 0 and at > start and ends_operand(tokens[at - 1]) and starts_statement(token)
        )
        if depth < 0 or is_next or (depth == 0 and token == "," and place == 0):
            break
        if depth == 0 and token == ",":
            place, begins = place - 1, at + 1
        at += 1
    return tokens[begins:at]


def ends_operand(token: str) -> bool:
    return bool(re.fullmatch(r"\w+|[)\]}]|'.*'", token)) and token not in ("and", "or", "not")


def starts_statement(token: str) -> bool:
    return token.isidentifier() and token not in ("and", "or", "not")


def is_bounded(wanted: list[str], tokens: list[str], trusted: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is made of lengths, constants and arguments alone."""
    text = " ".join(wanted)
    text = re.sub(r"tonumber \( ARGV \[ \w+ \] \)", "1", text)
    text = re.sub(r"# \w+( \. \w+)*( \[ \w+ \])?", "1", text)
    for name in re.findall(r"[A-Za-z_]\w*", text):
        if name in PURE or name in trusted or name.isupper():
            continue
        values = assigned(tokens, name)
        if not values or not all(is_bounded(one, tokens, trusted | {name}) for one in values):
            return False
    return True


def faults_of(text: str) -> list[str]:
    tokens = tokens_of(text)
    found = [
        f"{one}: a loop that counts would end"
        for one in ("while", "repeat", "goto")
        if one in tokens
    ]
    for head, body in loops_in(tokens):
        shown = " ".join(head)
        if "in" in head:
            what = " ".join(head[head.index("in") + 1 :])
            name = re.fullmatch(r"i?pairs \( ([\w.]+(?: \. \w+)*) \)", what)
            if not re.match(r"i?pairs \(", what):
                found.append(f"{shown}: not a list")
            elif name and grows(name[1], " ".join(body)):
                found.append(f"{shown}: the list grows meanwhile")
        elif not is_bounded(head[head.index("=") + 1 :], tokens):
            found.append(f"{shown}: to a number that is not known")
    return found


def grows(name: str, body: str) -> bool:
    escaped = re.escape(name)
    return bool(re.search(rf"{escaped} \[ # {escaped} \+ 1 \]|insert \( {escaped} ,", body))


def recursive_in(text: str) -> set[str]:
    tokens = tokens_of(text)
    found = set()
    for at, token in enumerate(tokens):
        if token == "function" and tokens[at + 2] == "(":
            body = body_from(tokens, tokens.index(")", at) + 1)
            if any(one == tokens[at + 1] and nxt == "(" for one, nxt in itertools.pairwise(body)):
                found.add(tokens[at + 1])
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_loop_of_a_script_ends(path: Path) -> None:
    text = path.read_text("utf-8")
    assert faults_of(text) == []
    assert recursive_in(text) <= HALVING.get(path.name, set())


@pytest.mark.parametrize(
    "text",
    [
        "while #list > 0 do redis.call('ZREM', KEYS[1], list[1]) end",
        "repeat until redis.call('ZCARD', KEYS[1]) == 0",
        "for i = 1, redis.call('ZCARD', KEYS[1]) do end",
        "local count = tonumber(redis.call('GET', KEYS[1]))\nfor i = 1, count do end",
        "local function f(count) for i = 1, count do end end",
        "local a, b = #list, total('x')\nfor i = 1, b do end",
        "for _, one in ipairs(found) do if one then found[#found + 1] = one end end",
        "for one in string.gmatch(text, '.') do end",
    ],
)
def test_a_loop_that_could_go_on_is_noticed(text: str) -> None:
    assert faults_of(text)


def test_a_loop_that_ends_is_none_of_them() -> None:
    assert not faults_of(
        "local MOST = 20\nlocal a, count = total('x'), #list\nlocal left = tonumber(ARGV[1])\n"
        "if a then count = count + 1 elseif b then count = 0 end\n"
        "for i = 1, math.min(count, MOST) do for _, one in ipairs(list) do f(one) end end\n"
        "for i = left, 1, -1 do end"
    )
    assert recursive_in("local function f(n) if n then f(n - 1) end end") == {"f"}
