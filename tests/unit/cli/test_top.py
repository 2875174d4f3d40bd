"""The picture of a limit and of topics, as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.cli._commands.looking import ClusterView
from dispatcher.cli._commands.top.backlog import of_topics
from dispatcher.cli._commands.top.cells import cells, colour_of, drawn, row_of
from dispatcher.cli._commands.top.command import Drawing
from dispatcher.cli._commands.top.memory import LETTERS, Memory
from dispatcher.cli._commands.top.picture import of_limit
from dispatcher.cli._commands.top.spans import fitted, line, plain
from dispatcher.timeline import Stats
from limiters.leases import LimitView
from tests.views import instance, limit


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
    instance("1", held=0.5, need=30_000.0, spent=5_000.0, share=0.5),
    instance("2", held=0.25, need=5_000.0, spent=5_000.0, share=0.25),
    instance("3", need=9_000.0, share=0.25),
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
    assert lines[1] == "15 of 20 partitions held (75 % of the limit)"
    assert lines[2] == "demand 44,000 (220 % of the capacity), spend 10,000 (50 %)"
    assert "A" * 50 + "B" * 25 + "." * 25 in lines
    assert "a letter is 1 % of the limit; . is free" in lines
    first = next(it for it in lines if it.startswith("A worker-1:1"))
    second = next(it for it in lines if it.startswith("B worker-2:1"))
    assert first.split()[-6:] == ["10", "50", "%", "30,000", "5,000", "10"]
    assert abs(first.count("█") - first.count("░")) <= 1
    assert second.count("█") == first.count("█")
    assert "░" not in second
    assert next(it for it in lines if it.startswith("C worker-3:1")).endswith("5  short")


def test_a_share_is_shown_in_partitions_with_a_fraction_and_in_per_cent() -> None:
    busy = [instance(str(n), held=1 / 30, need=2_000.0, share=1 / 30) for n in range(30)]
    lines = picture(limit(*busy), width=80).splitlines()
    row = next(it for it in lines if it.startswith("A worker-0:1"))
    assert row.split()[-4:] == ["0.67", "2,000", "0", "0.67"]
    wide = picture(limit(*busy), width=100).splitlines()
    row = next(it for it in wide if it.startswith("A worker-0:1"))
    assert row.split()[-6:] == ["0.67", "3", "%", "2,000", "0", "0.67"]
    assert lines[1] == "20 of 20 partitions held (100 % of the limit)"
    assert all(len(it) <= 80 for it in lines)


def test_it_says_who_is_starving_only_after_a_lease_and_a_period() -> None:
    assert "starving" not in picture(FULL, 0.0, 5.9)
    shown = picture(FULL, 0.0, 6.0, width=200)
    assert "C worker-3:1 is starving: it wants 9,000, holds 0 partitions, and has had less" in shown
    assert "than its fair share of 5 for 6.0 s" in shown
    assert "starving 6.0 s" in shown
    assert "A worker-1:1 is starving" not in shown


def test_who_gets_its_share_for_a_moment_is_not_starving() -> None:
    memory = Memory()
    memory.observe(FULL, 0.0)
    memory.observe(limit(instance("3", held=0.25, need=9_000.0, share=0.25)), 3.0)
    memory.observe(FULL, 4.0)
    assert memory.starving(FULL, 9.0) == {}
    assert memory.starving(FULL, 10.0) == {"3": 6.0}


def test_who_waits_for_a_permit_is_shown_with_its_cost_and_for_how_long() -> None:
    waits = {"need": 9_000.0, "share": 0.25, "waits_for": 20_000.0}
    view = limit(
        instance("1", held=0.7, need=30_000.0, spent=14_000.0, share=0.7),
        instance("2", waits_ms=2_100, **waits),
        instance("3", waits_ms=900, **waits),
    )
    shown = picture(view, width=80)
    assert "2 wait for permits of 40,000 in all, the longest for 2.1 s" in shown
    assert next(it for it in shown.splitlines() if it.startswith("B ")).endswith("5  waits 2.1 s")
    assert "short" not in shown
    one = limit(instance("2", waits_ms=2_100, **waits))
    assert "1 waits for a permit of 20,000, for 2.1 s" in picture(one)


def test_who_saves_up_for_an_expensive_operation_is_starving_only_after_that_time_too() -> None:
    def waiting(seconds: float) -> LimitView:
        known: dict[str, Any] = {"need": 20_000.0, "waits_for": 20_000.0, "share": 0.25}
        return limit(instance("1", waits_ms=int(1000 * seconds), **known))

    assert "starving" not in picture(waiting(9.9))  # 6 s, and 4 s in which its share makes it up
    assert "A worker-1:1 is starving: it has waited for a permit of 20,000 for 10 s" in picture(
        waiting(10.0)
    )


def test_who_spends_its_share_and_waits_for_a_batch_more_is_not_starving() -> None:
    def waiting(spent: float) -> str:
        known: dict[str, Any] = {"need": 20_000.0, "waits_for": 200.0, "share": 0.25}
        return picture(limit(instance("1", held=0.24, spent=spent, waits_ms=60_000, **known)))

    assert "starving" not in waiting(4_800.0)
    assert "waits 60 s" in waiting(4_800.0)
    assert "A worker-1:1 is starving" in waiting(0.0)


@pytest.mark.parametrize(
    "known",
    [
        {"need": 0.0},
        {"evicted": True},
        {"lease_ms": -1},
        {"held": 0.25},
        {"held": 0.23},  # so little is not moved
        {"permit": 500.0},
        {"waits_for": 500.0},
    ],
)
def test_who_is_not_short(known: dict[str, Any]) -> None:
    memory = Memory()
    memory.observe(limit(instance("1", **{"need": 9_000.0, "share": 0.25, **known})), 0.0)
    assert not memory.short_since


def test_letters_stay_with_who_has_them() -> None:
    memory = Memory()
    memory.observe(limit(instance("2"), instance("3")), 0.0)
    assert memory.letters == {"2": "A", "3": "B"}
    memory.observe(limit(instance("1"), instance("3")), 1.0)
    assert memory.letters == {"3": "B", "1": "A"}
    many = limit(*(instance(f"{n:03}") for n in range(50)))
    memory.observe(many, 2.0)
    assert len(set(memory.letters.values())) == len(LETTERS) + 1
    assert [it.instance for it in memory.in_order(many.instances)][:2] == ["000", "001"]
    assert "* worker-049:1" in plain(of_limit("orders", many, memory, 2.0, 100))


@pytest.mark.parametrize(("width", "row"), [(200, 100), (80, 50), (40, 25), (24, 20), (5, 10)])
def test_the_map_has_a_letter_for_each_per_cent_whatever_the_width(width: int, row: int) -> None:
    assert row_of(width) == row
    shown = picture(limit(instance("1", held=0.5)), width=width)
    rows = [it for it in shown.splitlines() if it and set(it) <= {"A", "."}]
    assert "".join(rows) == "A" * 50 + "." * 50
    assert {len(it) for it in rows} == {row}


@given(st.lists(st.floats(0, 1), max_size=40))
def test_the_map_is_rounded_so_that_no_instance_takes_the_letters_of_others(
    parts: list[float],
) -> None:
    whole = max(1.0, sum(parts))
    shares = [(LETTERS[at % len(LETTERS)], part / whole) for at, part in enumerate(parts)]
    letters = cells(shares)
    assert len(letters) == 100
    assert abs(100 - letters.count(".") - 100 * sum(share for _, share in shares)) <= 0.51
    if len(parts) <= len(LETTERS):
        assert all(abs(letters.count(letter) - 100 * share) <= 1.01 for letter, share in shares)


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


@pytest.mark.parametrize(
    ("width", "left_out"), [(100, ""), (90, "limit"), (80, "limit"), (60, "limit, share, wants")]
)
def test_columns_that_have_no_room_are_named(width: int, left_out: str) -> None:
    lines = picture(FULL, width=width).splitlines()
    titles = next(it for it in lines if "against" in it or " use " in it)
    note = f"not shown, since the terminal is narrow: {left_out}"
    assert (" ".join(lines).endswith(note)) == bool(left_out)
    for title in ("held", "limit", "wants", "spends", "share"):
        assert (f"  {title}" in titles) == (title not in left_out)
    assert all(len(it) <= width for it in lines)
    hint = plain(fitted([line("")] * 15, 50, 10)).splitlines()[-1]
    assert hint == "... 6 more lines: --once shows all of them"


def test_only_ascii_where_there_is_nothing_else() -> None:
    assert picture(FULL, fine=False).isascii()


def test_what_others_have_written_does_nothing_to_a_terminal() -> None:
    shown = picture(limit(instance("1", label="\x1b]0;boo\x07")))
    assert "\x1b" not in shown
    assert "?]0;boo?" in shown


def test_what_is_out_of_the_ordinary_is_shown() -> None:
    shown = picture(
        limit(
            instance("1", held=0.1, lease_ms=-5),
            instance("2", evicted=True),
            uncertain_ms=4_200,
            cause="the server is another one",
            skew_ms=3_100,
        )
    )
    assert "grants nothing new for 4.2 s: the server is another one" in shown
    assert "3.1 s of Redis' clock do not count: it was set forward, or no instance asked" in shown
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
            },
            80,
        )
    )
    lines = [it.split() for it in shown.splitlines()]
    assert lines[0] == ["topic", "due", "late", "waiting", "processing", "dead", "consumers"]
    assert " ".join(lines[1]) == "mails 12 75 s 3,000 0 0 0"
    assert lines[4] == ["no", "consumer", "of", "mails"]
    assert lines[2] == ["reminders", "0", "-", "0", "4", "1", "1"]
    assert lines[3][1:] == ["there", "is", "no", "such", "topic"]
    assert of_topics({}, 80) == []
    assert "there is no such topic" in plain(of_topics({"a": None}, 80))


def test_while_redis_is_away_the_last_picture_stays_with_a_word_about_it() -> None:
    drawing = Drawing()
    never = plain(drawing.picture(ClusterView(), "Redis refuses", 0.0, 80))
    assert "Redis refuses\nretrying" in never
    seen = ClusterView({"orders": FULL, "gone": None}, {"mails": stats()})
    there = plain(drawing.picture(seen, None, 10.0, 80))
    assert "limit orders" in there
    assert "limit gone: there is no such limit" in there
    away = plain(drawing.picture(seen, "Redis refuses", 15.0, 80))
    assert "Redis refuses\nthis is from 5.0 s ago; retrying" in away
    assert "A worker-1:1" in away
    assert "starving" not in plain(drawing.picture(seen, "Redis refuses", 15.9, 80))
    assert "Redis" not in plain(drawing.picture(seen, None, 16.0, 80))


def test_long_names_of_pods_and_topics_stay_different_in_80_columns() -> None:
    pods = [f"orders-writer-7d9f8b6c5d-{it}:1" for it in ("x2v4q", "k8m2p")]
    view = limit(*(instance(str(n), label=it, held=0.5) for n, it in enumerate(pods)))
    lines = picture(view, width=80).splitlines()
    assert all(len(it) <= 80 for it in lines)
    assert "-x2v4q:1 " in next(it for it in lines if it.startswith("B "))
    assert "-k8m2p:1 " in next(it for it in lines if it.startswith("A "))
    assert all(it in "\n".join(picture(view, width=140).splitlines()) for it in pods)
    topics = {
        f"reminders-for-{it}-customers-of-all-continents": stats(new=3, consumers=0) for it in "ab"
    }
    assert all(len(it) <= 80 for it in plain(of_topics(topics, 80)).splitlines()[:3])


def test_the_text_of_a_limit_is_complete_on_any_terminal() -> None:
    cause = "an operator has changed the lease time or the period of the limit"
    shown = picture(limit(uncertain_ms=4_200, cause=cause, skew_ms=3_100), width=60)
    assert all(len(it) <= 60 for it in shown.splitlines())
    assert cause in " ".join(shown.split())


def test_a_clock_that_is_ahead_by_less_than_is_shown_is_not_spoken_of() -> None:
    assert "clock" not in picture(limit(skew_ms=49))
    assert "0.1 s of Redis' clock" in picture(limit(skew_ms=120))


def test_nothing_at_all_is_shown_in_words() -> None:
    shown = plain(Drawing(leave="q leaves").picture(ClusterView(), None, 0.0, 80))
    assert "there is no limit and no topic" in shown
    assert shown.splitlines()[0].endswith("   q leaves")


def test_a_line_is_a_line() -> None:
    assert plain([line("a"), line("")]) == "a\n\n"
