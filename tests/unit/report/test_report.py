"""Reports for people: what was spent, held, refused and waited for is drawn and written."""

from __future__ import annotations

import os
import re
from itertools import combinations
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.report import (
    Entry,
    ReportError,
    ReportFile,
    Run,
    image,
    page,
    report,
    report_limits,
)
from dispatcher.report._charts.histograms import sizes, waits
from dispatcher.report._charts.shares import granted_again, held_at, shares, shown
from dispatcher.report._charts.svg import IMAGE, NARROW, WIDTH, picture
from dispatcher.report._charts.use import use
from dispatcher.report.page import facts
from dispatcher.report.run import CallsRun
from limiters import InFlight, Limits, Rate

RUN = Run(
    "a <run>",
    100,
    [
        Entry(5.0, "a", 50, 5, 0.1),
        Entry(5.5, "b", 30, 3, 0.2),
        Entry(6.25, "a", 60, 6, 0.9),
    ],
    holdings=[
        (5.0, {"a": 0.5, "b": 0.5}),
        (5.5, {"a": 0.25, "b": 0.5}),
        (6.0, {"a": 0.25, "b": 0.75}),
        (6.5, {"b": 1.0}),
        (7.0, {"b": 1.0}),
    ],
    partitions=4,
    refused=[5.1, 5.2],
)


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.removeprefix("<!doctype html>\n"))


def texts(text: str) -> list[str]:
    return [one.strip() for one in parsed(text).itertext() if one.strip()]


def test_a_column_is_what_was_spent_in_the_period_that_ends_there() -> None:
    assert RUN.columns("a", [5.0, 5.9, 6.0, 6.3]) == [50, 50, 0, 60]
    assert RUN.columns("b", [5.4, 6.4, 6.5]) == [0, 30, 0]


@given(st.lists(st.tuples(st.floats(0, 20), st.sampled_from("abc"), st.floats(0.1, 9)), min_size=1))
def test_c1_nothing_is_drawn_above_the_line_if_no_window_was_over(
    log: list[tuple[float, str, float]],
) -> None:
    worst = Run("one", 10, [Entry(*one) for one in log]).verdict.worst * 10
    run = Run("one", max(worst, 0.1), [Entry(*one) for one in log])
    chart = parsed(picture([use(run)], ""))
    limit = next(
        float(line.get("points", "").split(",")[1].split(" ")[0])
        for line in chart.findall(".//{*}polyline")
        if line.get("stroke-width") == "2"
    )
    for area in chart.findall(".//{*}path"):
        assert all(float(y) >= limit - 0.11 for y in re.findall(r"V(-?[\d.]+)", area.get("d", "")))


def test_a_share_is_drawn_in_the_colour_of_who_held_it_as_high_as_it_was() -> None:
    assert held_at(RUN, "a", [4.9, 5.0, 5.9, 6.5]) == [0.0, 0.5, 0.25, 0.0]
    assert held_at(RUN, "b", [5.0, 6.2, 7.0]) == [0.5, 0.75, 1.0]
    chart = shares(RUN, height=100)
    areas = parsed(picture([chart], "")).findall(".//{*}path")
    assert [one.findtext("{*}title") for one in areas] == [
        "a: 2 partitions at most",
        "b: 4 partitions at most",
    ]
    # at first, 25 of it by no instance for half a second.
    top = [float(y) - chart.top for y in re.findall(r"V(-?[\d.]+)H", areas[1].get("d", ""))]
    assert {round(y) for y in top} >= {0, 25}
    said = texts(picture([chart], ""))
    assert {"0", "2", "4", "a <run>: who holds how much of 4 partitions"} <= set(said)


def test_what_was_given_back_and_granted_again_is_counted_in_shares() -> None:
    assert granted_again(RUN) == 0.5
    assert dict(facts(RUN))["Given back and granted again"] == "2 partitions"
    assert shown(Run("one", 10, [], partitions=1), 1.0) == "1 partition"
    once = Run("one", 10, [], holdings=[(0, {"a": 0.4}), (1, {"a": 0.4, "b": 0.6})])
    assert granted_again(once) == 0
    unknown = Run("one", 10, [Entry(0, "a", 1)], holdings=once.holdings)
    assert dict(facts(unknown))["Given back and granted again"] == "0 %"


def test_a_long_run_of_many_instances_stays_a_picture() -> None:
    looks = [(n / 20, {f"i{i}": 1 / 300 for i in range(300)}) for n in range(2_000)]
    run = Run("long", 10, [Entry(0, "i0", 1)], holdings=looks)
    assert len(picture([shares(run)], "")) < 3_000_000


def test_nothing_is_written_over_anything_else() -> None:
    names = [f"pod-of-a-long-deployment-{number}:17" for number in range(30)]
    entries = [Entry(n / 30, name, 40_000, 300 * n) for n, name in enumerate(names)]
    holdings = [(0.0, dict.fromkeys(names, 1 / 30))]
    for refused in (None, [0.5]):
        for title in ("short", "A title of a user with much to say of it " * 3):
            run = Run(
                title, 12_000_000, entries, holdings=holdings, partitions=10_000, refused=refused
            )
            narrow = (
                use(run, name="", width=NARROW),
                shares(run, name="", width=NARROW),
                use(run, width=IMAGE),
                shares(run, width=IMAGE),
            )
            for chart in (use(run), shares(run), sizes(run), *narrow):
                assert chart is not None
                written = [extent(one) for one in parsed(picture([chart], "")).iter(TEXT)]
                assert all(left >= 0 and right <= chart.width for left, right, _ in written)
                assert all(0 < below <= chart.height for _, _, below in written)
                for one, other in combinations(written, 2):
                    beside = one[1] <= other[0] or other[1] <= one[0]
                    assert beside or abs(one[2] - other[2]) >= 10, (one, other)


TEXT = "{http://www.w3.org/2000/svg}text"


def extent(text: ElementTree.Element) -> tuple[float, float, float]:
    """From where to where it goes, and on what it stands, in a font as wide as there are."""
    x, y, said = float(text.get("x", "")), float(text.get("y", "")), text.text or ""
    wide = len(said) * (7.8 if text.get("font-weight") == "bold" else 7.4)
    left = x - {"start": 0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
    return left, left + wide, y


def test_every_number_of_the_page_is_that_of_the_run() -> None:
    said = texts(page([RUN]))
    for name, value in facts(RUN):
        assert said[said.index(name) + 1] == value
    assert {"a <run>", "100", "2 refused", "0 of 3", "0.9000 of the limit"} <= set(said)
    assert "half of the batches at most 0.20 s, 99 % 0.90 s" in said
    assert "3, of cost 140 in all" in said


def test_runs_on_one_page_have_one_table_and_the_same_axes() -> None:
    short = Run("short", 100, [Entry(7.0, "a", 100), Entry(7.5, "a", 10)])
    page_ = parsed(page([RUN, short], ["above"], ["below"]))
    rows = [["".join(cell.itertext()) for cell in row] for row in page_.iter("tr")]
    assert rows[0] == ["", "a <run>", "short"]
    assert ["Windows over the limit", "0 of 3", "1 of 2"] in rows
    assert ["Refused by the datastore", "2", ""] in rows
    assert [one.text for one in page_.iter("p")][:2] == ["above", "below"]
    one, other = use(RUN, [RUN, short]), use(short, [RUN, short])
    assert one.y(100) == other.y(100)
    assert one.y(110) >= one.top
    start, begin = RUN.span[0], short.span[0]
    assert one.x(start + 1) == pytest.approx(other.x(begin + 1))
    held = shares(RUN, [RUN, short])
    assert held.x(start + 1) == pytest.approx(one.x(start + 1))


def test_the_table_is_what_the_caller_says_of_a_run() -> None:
    run = Run("one", 10, [Entry(0, "a", 1)], facts=[("Colour", "green")])
    assert list(facts(run)) == [("Colour", "green")]


def test_what_happened_is_a_line_in_each_chart_with_its_name_below() -> None:
    run = Run("one", 10, [Entry(0, "a", 1)], holdings=[(0, {"a": 1.0})], marks=[(2.0, "killed")])
    for chart in (use(run), shares(run)):
        drawn = parsed(picture([chart], ""))
        dashed = [it.get("points", "") for it in drawn.iter(LINE) if it.get("stroke-dasharray")]
        assert dashed[0].startswith(f"{chart.x(2.0):.1f},")
        assert "killed" in texts(picture([chart], ""))


LINE = "{http://www.w3.org/2000/svg}polyline"


def test_a_dark_screen_and_a_phone_have_their_own_look() -> None:
    for text in (page([RUN]), image([RUN])):
        assert "prefers-color-scheme:dark" in text
        # What is not an instance's takes its colour from the style, which is dark on demand.
        drawn = [it for it in parsed(text).iter() if it.tag in {TEXT, LINE}]
        assert all(it.get("class") and it.get("fill") in {None, "none"} for it in drawn)
    assert 'name="viewport"' in page([RUN])
    widths = {
        kind: {
            int(float(drawn.get("width", "")))
            for block in parsed(page([RUN])).iter("div")
            if block.get("class") == kind
            for drawn in block
        }
        for kind in ("wide", "narrow")
    }
    assert widths == {"wide": {WIDTH}, "narrow": {NARROW}}
    assert NARROW <= 400
    whole = parsed(image([RUN]))
    letters = float(whole.get("font-size", "")) * 360 / float(whole.get("width", ""))
    assert letters >= 9  # pixels, in the column of a phone


def test_batches_are_counted_by_size_and_by_waiting_time() -> None:
    entries = [Entry(n, "a", 1, 1 + n % 3, n / 10) for n in range(9)]
    run = Run("one", 10, entries)
    for chart, expected in ((sizes(run), ["1", "2", "3"]), (waits(run), ["0 to 0.1"])):
        assert chart is not None
        bars = [it.text or "" for it in parsed(picture([chart], "")).findall(".//{*}title")][1:]
        assert sum(int(bar.rpartition(" ")[2]) for bar in bars) == 9
        assert [bar for bar in bars if bar.startswith(tuple(expected))]
    plain = Run("one", 10, [Entry(0.0, "a", 1)])
    assert sizes(plain) is waits(plain) is None


def test_small_numbers_are_not_rounded_away() -> None:
    run = Run("half a call a second", 0.5, [Entry(0, "a", 0.25), Entry(5, "a", 0.25)])
    assert {"0.5", "0.25"} <= set(texts(picture([use(run)], "")))
    assert dict(facts(run))["Batches"] == "2, of cost 0.5 in all"


def test_a_capacity_that_changed_is_a_line_with_a_step() -> None:
    run = Run("one", [(0.0, 100.0), (3.0, 50.0)], [Entry(n / 2, "a", 10) for n in range(12)])
    lines = [
        one.get("points", "").split()
        for one in parsed(picture([use(run)], "")).findall(".//{*}polyline")
        if one.get("stroke-width") == "2"
    ]
    assert len({point.split(",")[1] for point in lines[0]}) == 2
    assert "0 of" in dict(facts(run))["Windows over the limit"]


def test_the_page_needs_nothing_else_and_shows_what_others_wrote_as_text() -> None:
    runs = [Run("<script>", 10, [Entry(0, "<b>", 1, 1)]), Run("empty", 10, [])]
    for said in (page(runs), image(runs[:1])):
        assert "<script" not in said.replace("&lt;script&gt;", "")
        assert "<b>" not in said
        assert not re.search(r"(src|href)=", said)
        parsed(said)
    assert "nothing was spent" in page(runs)


@pytest.mark.parametrize("name", ["a\x00b", "\x0b", "\x1b[31m", "\x7f", "\ufffe\uffff", "\udcff"])
def test_a_name_with_characters_that_xml_does_not_allow_is_shown(tmp_path: Path, name: str) -> None:
    entries = [Entry(0, name, 1, 1, 0.1)]
    run = Run(name, 10, entries, holdings=[(0, {name: 1.0})], marks=[(1.0, name)], refused=[0.5])
    for file in (tmp_path / "run.html", tmp_path / "run.svg"):
        ReportFile(file).write([run], [name], [name])
        parsed(file.read_text("utf-8"))


def test_instances_are_in_the_order_of_their_numbers() -> None:
    names = ["i", "i0", "i9", "i10", "i10-2", "i10-10", f"i{'9' * 5000}", f"i1{'0' * 5000}", "j1"]
    assert Run("one", 10, [Entry(0, name, 1) for name in names]).instances == names


def test_what_the_verifier_judged_can_be_looked_at(tmp_path: Path) -> None:
    log = [(0.0, "a", 6.0), (0.5, "b", 4.0), (0.9, "a", 1.0)]
    verdict = report(tmp_path / "run.html", log, 10, title="over")
    assert verdict.over == 1
    assert "1 of 3" in texts((tmp_path / "run.html").read_text())
    report(tmp_path / "run.svg", log, 10)
    assert parsed((tmp_path / "run.svg").read_text()).tag.endswith("svg")
    assert sorted(os.listdir(tmp_path)) == ["run.html", "run.svg"]


@pytest.mark.parametrize("where", ["nowhere/run.html", "file/run.html", "."])
def test_where_it_cannot_be_written_is_reported_before_anything_is_done(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ReportError, match="name a file"):
        ReportFile(tmp_path / where)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["run.png", "run.PDF", "run.jpg"])
def test_a_picture_of_another_kind_is_refused_and_not_a_page_that_is_called_so(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ReportError, match=r"a picture, \*\.svg, or a page, \*\.html"):
        ReportFile(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_a_report_is_there_whole_or_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.html"
    path.write_text("as it was")
    file = ReportFile(path)
    assert path.read_text() == "as it was"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.chmod", full)
        with pytest.raises(ReportError, match="No space left"):
            file.write([RUN])
    assert [path.read_text(), os.listdir(tmp_path)] == ["as it was", ["run.html"]]
    file.write([RUN])
    assert path.read_text() == page([RUN])
    assert os.listdir(tmp_path) == ["run.html"]


def test_an_odd_place_such_as_a_device_is_written_to_and_not_replaced() -> None:
    ReportFile("/dev/null").write([RUN])
    assert not Path("/dev/null").is_file()


def test_several_limits_have_a_column_for_each_window_and_a_line_for_calls(tmp_path: Path) -> None:
    limits = Limits(
        requests=Rate(6, per=6, also=[Rate(2, per=1)]), tokens=Rate(1_000), calls=InFlight(1)
    )
    call = {"requests": 1, "tokens": 400, "calls": 1}
    log = [(0.0, "a", call, 0.4), (0.5, "b", call, 0.9), (0.8, "a", {"tokens": 300}, 1.0)]
    verdict = report_limits(tmp_path / "run.html", log, limits, title="API")
    assert not verdict.holds
    assert [bound.dimension for bound, found in verdict.bounds if found.over] == ["tokens"]
    said = texts((tmp_path / "run.html").read_text())
    for bound in limits.bounds:
        assert f"API, {bound}" in said
    assert any("1,100" in one for one in said)
    assert any(one.startswith("Used most: ") for one in said)
    assert "Calls beyond the limit" in said
    assert "most calls in flight" in said


def test_n1_a_column_is_the_number_of_calls_when_most_of_them_ran() -> None:
    calls = [
        Entry(0.0, "a", 1, end=0.4),
        Entry(0.1, "b", 1, end=0.3),
        Entry(0.2, "b", 1, end=0.6),
        Entry(0.4, "a", 1, end=0.9),  # as its first one ends
        Entry(2.0, "a", 1),  # it has not returned
    ]
    run = CallsRun("calls", 3, calls, period=1.0)
    ends = [0.0, 0.15, 0.25, 0.5, 1.0, 1.5, 2.5, 3.5]
    assert run.columns("a", ends) == [1, 1, 1, 1, 1, 0, 1, 1]
    assert run.columns("b", ends) == [0, 1, 2, 2, 1, 0, 0, 0]
    assert run.verdict.holds
    assert run.verdict.worst == 1.0


def test_n1_no_column_is_above_the_line_if_there_were_never_too_many_calls(tmp_path: Path) -> None:
    random = Random(1)
    starts = sorted(random.uniform(0, 20) for _ in range(200))
    log = [(at, random.choice("abc"), 1, at + random.uniform(0, 0.5)) for at in starts]
    limits = Limits(calls=InFlight(40))
    verdict = report_limits(tmp_path / "run.html", log, limits)
    most = round(verdict.of("calls")[0].worst * 40)
    run = CallsRun("calls", most, [Entry(at, who, n, end=end) for at, who, n, end in log])
    ends = [number / 10 for number in range(220)]
    columns = zip(*(run.columns(who, ends) for who in "abc"), strict=True)
    assert max(map(sum, columns)) == most
    assert run.verdict.holds


def test_limits_that_changed_are_drawn_as_they_were(tmp_path: Path) -> None:
    before = Limits(tokens=Rate(1_000), calls=InFlight(2))
    after = Limits(tokens=Rate(400), calls=InFlight(1))
    log = [
        (0.0, "a", {"tokens": 900, "calls": 1}, 0.5),
        (0.1, "b", {"tokens": 50, "calls": 1}, 0.5),
        (9.0, "a", {"tokens": 400, "calls": 1}, 9.5),
    ]
    shares = {"tokens": [(0.0, {"a": 0.5}), (5.0, {"a": 1.0})]}
    path = tmp_path / "run.html"
    verdict = report_limits(path, log, [(0.0, before), (5.0, after)], holdings=shares)
    assert verdict.holds
    said = texts(path.read_text())
    assert "A run, tokens: 1000 per 1 s" in said
    assert sum(one.startswith("a: ") for one in said) == 2  # wide and narrow, of tokens alone
    with pytest.raises(ValueError, match="holdings must be of tokens, calls"):
        report_limits(path, log, before, holdings={"requests": []})


def test_z6_estimated_and_actual_costs_are_shown_where_both_are_known(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    verdict = report(path, [(0.0, "a", 90.0, 20.0), (0.5, "a", 10.0, None)], 100)
    assert (verdict.total, verdict.estimated) == (30.0, 100.0)
    page = path.read_text()
    assert "Estimated cost" in page
    assert "30, 0.3000 of the estimate" in page
    report(path, [(0.0, "a", 90.0)], 100)
    assert "Estimated cost" not in path.read_text()


def test_z6_so_are_those_of_several_dimensions(tmp_path: Path) -> None:
    limits = Limits(requests=Rate(10), tokens=Rate(100))
    call = (0.0, "a", {"requests": 1, "tokens": 90}, 0.5, {"tokens": 45})
    path = tmp_path / "run.html"
    assert report_limits(path, [call], limits).of("tokens")[0].cost_ratio == 0.5
    assert "45, 0.5000 of the estimate" in path.read_text()


def test_of_a_run_that_is_shorter_than_a_window_the_use_is_of_one_window() -> None:
    run = Run("short", 90_000, [Entry(at / 10, "a", 800) for at in range(81)], period=60)
    assert dict(run.facts_of_verdict())["Used after the first batch"] == (
        "0.7111 of one window: the log is shorter than its 60 s"
    )
