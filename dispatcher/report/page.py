"""Runs as a web page, or as one picture, both self-contained. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dispatcher.report._charts.histograms import quantile, sizes, waits
from dispatcher.report._charts.shares import granted_again, shares, shown
from dispatcher.report._charts.svg import IMAGE, NARROW, WIDTH, Frame, amount, escape, picture
from dispatcher.report._charts.use import use
from dispatcher.report.run import Run

PAGE_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;"
    "color:#24292f;background:#fff;color-scheme:light dark}"
    "svg{display:block;margin:1.2em 0;max-width:100%;height:auto}"
    "table{border-collapse:collapse;margin:1em 0}"
    "th,td{padding:.25em 1.2em .25em 0;text-align:left;border-bottom:1px solid #d8dee4}"
    "td{font-variant-numeric:tabular-nums}h2{margin-top:2em}"
    ".pair{display:flex;flex-wrap:wrap;gap:20px}.pair svg{margin:0}.narrow{display:none}"
    "@media(max-width:640px){body{margin:1em auto}h1{font-size:1.5em}table{font-size:.85em}"
    "th,td{padding-right:.6em}.narrow{display:block}.wide{display:none}}"
    "@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}"
    "th,td{border-color:#30363d}}"
)
TITLE = "Use of a shared limit"
READING = (
    "How to read the charts: each column is the cost of the period before it, in the colours of "
    "the instances; it reaches the line when the limit is used in full. A red mark is a refused "
    "call."
)


def page(runs: Sequence[Run], text: Sequence[str] = (), notes: Sequence[str] = ()) -> str:
    """Return the page: paragraphs of `text`, a table, `notes` on it, and the charts of all runs,
    with the same axes."""
    parts = [_charts(run, runs) for run in runs]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{TITLE}</title><style>{PAGE_STYLE}</style></head>"
        f"<body><h1>{TITLE}</h1>{_paragraphs(text)}{_table(runs)}"
        f"{_paragraphs([*notes, READING])}{''.join(parts)}"
        "</body></html>\n"
    )


def image(runs: Sequence[Run]) -> str:
    """Return the use of the limit in each run, and the shares of the instances, as one SVG."""
    frames: list[Frame] = []
    for run in runs:
        frames.append(use(run, runs, width=IMAGE, height=130))
        if run.holdings:
            frames.append(shares(run, runs, width=IMAGE, height=90))
    return picture(frames, TITLE) + "\n"


def facts(run: Run) -> Iterator[tuple[str, str]]:
    """Return the numbers of a run, with their names."""
    if run.facts is not None:
        yield from run.facts
        return
    verdict = run.verdict
    if not run.entries:
        yield "Verdict", "nothing was spent"
        return
    yield from run.facts_of_verdict()
    yield "Batches", f"{len(run.entries):,}, of cost {amount(verdict.total)} in all"
    if run.refused is not None:
        yield "Refused by the datastore", f"{len(run.refused):,}"
    if run.holdings:
        yield "Given back and granted again", shown(run, granted_again(run))
    noted = [one.waited for one in run.entries if one.waited is not None]
    if noted:
        half, most = quantile(noted, 0.5), quantile(noted, 0.99)
        yield "Waited", f"half of the batches at most {half:.2f} s, 99 % {most:.2f} s"


def _paragraphs(text: Sequence[str]) -> str:
    return "".join(f"<p>{escape(one)}</p>" for one in text)


def _table(runs: Sequence[Run]) -> str:
    """Return the table: a row for each fact, a column for each run."""
    tables = [dict(facts(run)) for run in runs]
    names = dict.fromkeys(name for table in tables for name in table)
    head = "".join(f"<th>{escape(run.title)}</th>" for run in runs)
    rows = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(f"<td>{escape(table.get(name, ''))}</td>" for table in tables)
        + "</tr>"
        for name in names
    )
    return f"<table><tr><th></th>{head}</tr>{rows}</table>"


def _charts(run: Run, runs: Sequence[Run]) -> str:
    """Return the charts of one run, for a wide window and for a phone."""
    parts = [f"<h2>{escape(run.title)}</h2>"]
    for chart, drawn in ((use, run.entries), (shares, run.holdings)):
        for kind, width in (("wide", WIDTH), ("narrow", NARROW)):
            if drawn:
                frame = chart(run, runs, name="", width=width)
                parts.append(f'<div class="{kind}">{picture([frame], run.title)}</div>')
    small = "".join(picture([one], run.title) for one in (sizes(run), waits(run)) if one)
    return "".join([*parts, f'<div class="pair">{small}</div>' if small else ""])
