"""The page that people look at: what was spent is what is drawn."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from dispatcher.report import Run, page
from dispatcher.report.page import use


def test_what_was_spent_is_what_is_drawn_and_the_limit_is_a_line() -> None:
    run = Run("a <run>", 100, [(5.0, "a", 5, 5), (5.05, "b", 5, 5), (6.05, "a", 10, 10)])
    chart = ElementTree.fromstring(use(run))
    bars = [it for it in chart.findall(".//{*}rect") if it.get("height") != "12"]
    heights = [float(bar.get("height", 0)) for bar in bars]
    # Both count for a second, and then what came a second later.
    assert len(heights) == 21
    assert sum(heights[:2]) == pytest.approx(heights[-1], abs=0.2)
    assert heights[-1] > 0
    assert [len({bar.get("fill") for bar in bars}), len(chart.findall(".//{*}line"))] == [2, 1]
    texts = {it.text for it in chart.findall(".//{*}text")}
    assert {"a", "b", "100", "0", "0 s", "1 s"} <= texts


def test_the_page_needs_nothing_else_and_shows_what_others_wrote_as_text() -> None:
    said = page([Run("<script>", 10, [(0, "<b>", 1, 1)]), Run("empty", 10, [])])
    assert "<script" not in said.replace("&lt;script&gt;", "")
    assert "<b>" not in said
    assert "Nothing was written" in said
    assert not re.search(r"(src|href)=", said)
