"""Runs as a page for a browser, or as one picture: nothing else is needed to look at them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from dispatcher.report._charts.histograms import quantile, sizes, waits
from dispatcher.report._charts.shares import granted_again, shares, shown
from dispatcher.report._charts.svg import Frame, amount, picture
from dispatcher.report._charts.use import use
from dispatcher.report.run import Run

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;"
    "color:#24292f;background:#fff}svg{display:block;margin:1.2em 0;max-width:100%;height:auto}"
    "table{border-collapse:collapse;margin:1em 0}th,td{padding:.25em 1.2em .25em 0;"
    "text-align:left;border-bottom:1px solid #d8dee4}td{font-variant-numeric:tabular-nums}"
    "h2{margin-top:2em}.pair{display:flex;flex-wrap:wrap;gap:20px}.pair svg{margin:0}"
)
TITLE = "Use of a shared limit"


def page(runs: Sequence[Run]) -> str:
    """All of it, as a file for a browser."""
    parts = []
    for run in runs:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in facts(run)
        )
        charts = "".join(picture([frame], run.title) for frame in _charts(run))
        small = "".join(picture([one], run.title) for one in (sizes(run), waits(run)) if one)
        parts.append(
            f"<h2>{escape(run.title)}</h2><table>{rows}</table>{charts}"
            f'<div class="pair">{small}</div>'
        )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f"<title>{TITLE}</title><style>{STYLE}</style></head>"
        f"<body><h1>{TITLE}</h1>{''.join(parts)}</body></html>\n"
    )


def image(runs: Sequence[Run]) -> str:
    """The use of the limit in each run, and who held what, as one SVG."""
    frames: list[Frame] = []
    for run in runs:
        frames.append(use(run, height=130))
        if run.holdings:
            frames.append(shares(run, height=90))
    return picture(frames, TITLE) + "\n"


def facts(run: Run) -> Iterator[tuple[str, str]]:
    """The numbers: what they are called, what they are."""
    verdict = run.verdict
    if not run.entries:
        yield "Verdict", "nothing was spent"
        return
    yield "Windows over the limit", f"{verdict.over:,} of {verdict.windows:,}"
    yield "Fullest window", f"{verdict.worst:.4f} of the limit"
    burst = ": it began with a burst" if verdict.used > 1 else ""
    yield "Used after the first batch", f"{verdict.used:.4f} of the limit{burst}"
    yield "Batches", f"{len(run.entries):,}, of cost {amount(verdict.total)} in all"
    if run.refused is not None:
        yield "Refused by the datastore", f"{len(run.refused):,}"
    if run.holdings:
        yield "Given back and granted again", shown(run, granted_again(run))
    noted = [one.waited for one in run.entries if one.waited is not None]
    if noted:
        half, most = quantile(noted, 0.5), quantile(noted, 0.99)
        yield "Waited", f"half of the batches at most {half:.2f} s, 99 % {most:.2f} s"


def _charts(run: Run) -> Iterator[Frame]:
    if run.entries:
        yield use(run)
    if run.holdings:
        yield shares(run)
