"""The picture of a limit and of topics, as text."""

from __future__ import annotations

from typing import Any

import pytest

from dispatcher.cli.top.backlog import of_topics
from dispatcher.cli.top.cells import cells, colour_of, drawn
from dispatcher.cli.top.command import Drawing
from dispatcher.cli.top.looking import Seen
from dispatcher.cli.top.memory import LETTERS, Memory
from dispatcher.cli.top.picture import of_limit
from dispatcher.cli.top.spans import fitted, line, plain
from dispatcher.timeline import Stats
from limiters.leases import LimitView, MemberView
from limiters.leases.messages import Terms

TERMS = Terms(20_000, 1_000, 1_000, 5_000)


def member(instance: str, **known: Any) -> MemberView:
    return MemberView(
        **{
            "instance": instance,
            "label": f"worker-{instance}:1",
            "held": (),
            "lease_ms": 4_000,
            "seen_ms": 100,
            "need": 0.0,
            "gathering": 0.0,
            "spent": 0.0,
            "share": 0.0,
            "weight": 1.0,
            "reserved": 0.0,
            "evicted": False,
            **known,
        }
    )


def limit(*members: MemberView, terms: Terms = TERMS, quarantine_ms: int = 0) -> LimitView:
    return LimitView(terms, terms.capacity, 0.0, 20, (), quarantine_ms, members)


def stats(**known: Any) -> Stats:
    numbers = dict.fromkeys(
        ("new", "lost", "waiting", "processing", "dead", "created", "deleted", "given_up"), 0
    )
    known = {
        "remembered": 0,
        "backlog_age": 0.0,
        "next_due": None,
        "consumers": 1,
        "drift": 0.0,
        **known,
    }
    return Stats(**{**numbers, **known})


FULL = limit(
    member("1", held=((0, 9),), need=30_000.0, spent=5_000.0, share=10.0),
    member("2", held=((10, 14),), need=5_000.0, spent=5_000.0, share=5.0),
    member("3", need=9_000.0, share=5.0),
)


def picture(view: LimitView, *times: float, width: int = 100, fine: bool = True) -> str:
    memory = Memory()
    times = times or (0.0,)
    for now in times:
        memory.observe(view, now)
    return plain(of_limit("orders", view, memory, times[-1], width, fine=fine))


def test_it_shows_who_holds_what_without_any_colour() -> None:
    lines = picture(FULL).splitlines()
    assert lines[0] == "limit orders: 20,000 a second"
    assert lines[1] == (
        "15 of 20 partitions held, demand 44,000 (220 % of the capacity), spend 10,000 (50 %)"
    )
    assert "AAAAAAAAAABBBBB....." in lines
    assert "a letter is a partition; . is free" in lines
    first = next(it for it in lines if it.startswith("A worker-1:1"))
    second = next(it for it in lines if it.startswith("B worker-2:1"))
    assert first.split()[-4:] == ["10", "5,000", "30,000", "10"]
    assert first.count("█") == first.count("░") > 0
    assert second.count("█") == first.count("█")
    assert "░" not in second
    assert next(it for it in lines if it.startswith("C worker-3:1")).endswith("5  short")


def test_it_says_who_is_starving_only_after_a_lease_and_a_period() -> None:
    assert "starving" not in picture(FULL, 0.0, 5.9)
    shown = picture(FULL, 0.0, 6.0)
    assert "C worker-3:1 is starving: it wants 9,000, holds 0 partitions, and has had less" in shown
    assert "than its fair share of 5 for 6.0 s" in shown
    assert "starving 6.0 s" in shown
    assert "A worker-1:1 is starving" not in shown


def test_who_gets_its_share_for_a_moment_is_not_starving() -> None:
    memory = Memory()
    memory.observe(FULL, 0.0)
    memory.observe(limit(member("3", held=((0, 4),), need=9_000.0, share=5.0)), 3.0)
    memory.observe(FULL, 4.0)
    assert memory.starving(FULL, 9.0) == {}
    assert memory.starving(FULL, 10.0) == {"3": 6.0}


@pytest.mark.parametrize(
    "known",
    [
        {"need": 0.0},
        {"evicted": True},
        {"lease_ms": -1},
        {"held": ((0, 4),)},
        {"share": 0.9},
    ],
)
def test_who_is_not_short(known: dict[str, Any]) -> None:
    memory = Memory()
    memory.observe(limit(member("1", **{"need": 9_000.0, "share": 5.0, **known})), 0.0)
    assert not memory.short_since


def test_letters_stay_with_who_has_them() -> None:
    memory = Memory()
    memory.observe(limit(member("2"), member("3")), 0.0)
    assert memory.letters == {"2": "A", "3": "B"}
    memory.observe(limit(member("1"), member("3")), 1.0)
    assert memory.letters == {"3": "B", "1": "A"}
    many = limit(*(member(f"{n:03}") for n in range(50)))
    memory.observe(many, 2.0)
    assert len(set(memory.letters.values())) == len(LETTERS) + 1
    assert [it.instance for it in memory.in_order(many.members)][:2] == ["000", "001"]
    assert "* worker-049:1" in plain(of_limit("orders", many, memory, 2.0, 100))


def test_many_partitions_share_a_letter() -> None:
    terms = Terms(10_000, 1, 1_000, 5_000)
    shown = picture(limit(member("1", held=((0, 4_999),)), terms=terms), width=50)
    assert "a letter is 50 partitions; . is free" in shown
    rows = [it for it in shown.splitlines() if set(it) in ({"A"}, {"."})]
    assert rows == ["A" * 50] * 2 + ["." * 50] * 2


def test_a_letter_of_many_is_that_of_who_holds_most() -> None:
    assert cells("AAB" + "B.." + "..." + "AB.", 4, rows=1) == ("A..A", 3)
    assert cells("", 10) == ("", 1)


def test_neighbours_differ_in_colour() -> None:
    [[first, second, third]] = drawn("AAB.", 10)
    assert (first.text, second.text, third.text) == ("AA", "B", ".")
    assert len({first.style, second.style, third.style}) == 3
    assert colour_of("*")


@pytest.mark.parametrize("width", [20, 40, 60, 200])
def test_it_fits_any_terminal(width: int) -> None:
    memory = Memory()
    memory.observe(FULL, 0.0)
    lines = of_limit("orders", FULL, memory, 9.0, width)
    for one in plain(fitted(lines, width, 10)).splitlines():
        assert len(one) <= width
    assert len(fitted(lines, width, 10)) == 10
    assert "more lines" in plain(fitted(lines, 60, 10)).splitlines()[-1]
    assert len(fitted(lines, width, 100)) == len(lines)


def test_only_ascii_where_there_is_nothing_else() -> None:
    assert picture(FULL, fine=False).isascii()


def test_what_others_have_written_does_nothing_to_a_terminal() -> None:
    shown = picture(limit(member("1", label="\x1b]0;boo\x07")))
    assert "\x1b" not in shown
    assert "?]0;boo?" in shown


def test_what_is_out_of_the_ordinary_is_said() -> None:
    shown = picture(
        limit(
            member("1", held=((0, 1),), lease_ms=-5),
            member("2", evicted=True),
            quarantine_ms=4_200,
        )
    )
    assert "grants nothing new for 4.2 s" in shown
    assert "lease over" in shown
    assert "evicted" in shown
    assert "no instance asks for any of it" in picture(limit())


def test_topics_in_lines() -> None:
    shown = plain(
        of_topics(
            {
                "mails": stats(new=10, lost=2, waiting=3_000, backlog_age=75.0, consumers=0),
                "reminders": stats(processing=4, dead=1),
                "mial": None,
            }
        )
    )
    lines = [it.split() for it in shown.splitlines()]
    assert lines[0] == ["topic", "due", "late", "waiting", "leased", "dead", "consumers"]
    assert " ".join(lines[1]) == "mails 12 75 s 3,000 0 0 0 nobody consumes it"
    assert lines[2] == ["reminders", "0", "-", "0", "4", "1", "1"]
    assert lines[3][1:] == ["there", "is", "no", "such", "topic"]
    assert of_topics({}) == []
    assert "there is no such topic" in plain(of_topics({"a": None}))


def test_while_redis_is_away_the_last_picture_stays_with_a_word_about_it() -> None:
    drawing = Drawing()
    never = plain(drawing.picture(Seen(), "Redis refuses", 0.0, 80))
    assert "Redis refuses\nit is asked again and again" in never
    seen = Seen({"orders": FULL, "gone": None}, {"mails": stats()})
    there = plain(drawing.picture(seen, None, 10.0, 80))
    assert "limit orders" in there
    assert "limit gone: there is no such limit" in there
    away = plain(drawing.picture(seen, "Redis refuses", 15.0, 80))
    assert "Redis refuses\nthis is from 5.0 s ago; it is asked again and again" in away
    assert "A worker-1:1" in away
    assert "starving" not in plain(drawing.picture(seen, "Redis refuses", 15.9, 80))
    assert "Redis" not in plain(drawing.picture(seen, None, 16.0, 80))


def test_a_line_is_a_line() -> None:
    assert plain([line("a"), line("")]) == "a\n\n"
