"""From a board to Grafana's own model of a dashboard, by its foundation SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    FieldColor,
    QueryVariable,
    Row,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard

from grafana.questions import GREEN, OUTCOMES, Board, Choice, Question

DATASOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "dispatcher"
WIDTH = 24


def drawn(board: Board) -> dashboard.Dashboard:
    """The dashboard."""
    made = (
        Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags([TAG])
        .editable()
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(
            DashboardLink("Dispatcher")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .keep_time(True)
            .include_vars(True)
        )
        .with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for choice in board.choices:
        made.with_variable(_variable(choice))
    ids = iter(range(1, 1_000))
    at = 0
    for group in board.groups:
        made.with_row(Row(group.title).id(next(ids)).grid_pos(_place(0, at, WIDTH, 1)))
        at += 1
        for question, place in _placed(group.questions, at):
            made.with_panel(_panel(question).id(next(ids)).grid_pos(place))
            at = max(at, place.y + place.h)
    return made.build()


def text(board: Board) -> str:
    """The same as the JSON that Grafana imports."""
    written = json.dumps(drawn(board), cls=JSONEncoder, indent=2, sort_keys=True)
    return f"{written}\n"


def _placed(
    questions: tuple[Question, ...], top: int
) -> Iterator[tuple[Question, dashboard.GridPos]]:
    """Side by side as long as there is room."""
    x, y, height = 0, top, 0
    for question in questions:
        if x + question.width > WIDTH:
            x, y, height = 0, y + height, 0
        yield question, _place(x, y, question.width, question.height)
        x, height = x + question.width, max(height, question.height)


def _place(x: int, y: int, width: int, height: int) -> dashboard.GridPos:
    return dashboard.GridPos(h=height, w=width, x=x, y=y)


def _variable(choice: Choice) -> QueryVariable:
    variable = (
        QueryVariable(choice.name)
        .label(choice.label)
        .datasource(DATASOURCE)
        .query(f"label_values({choice.metric}, {choice.name})")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
        .multi(choice.several)
        .include_all(choice.several)
    )
    if choice.several:
        everything = dashboard.VariableOption(selected=True, text="All", value="$__all")
        variable.all_value(".*").current(everything)
    return variable


def _panel(question: Question) -> stat.Panel | timeseries.Panel:
    panel = _number(question) if question.look == "number" else _lines(question)
    panel.title(question.title).description(question.advice).datasource(DATASOURCE)
    panel.unit(question.unit).thresholds(_steps(question))
    for place, query in enumerate(question.queries):
        made = Dataquery().expr(query.expression).ref_id(chr(ord("A") + place)).range()
        panel.with_target(made.datasource(DATASOURCE).legend_format(query.legend or "__auto"))
    if question.least is not None:
        panel.min(question.least)
    if question.most is not None:
        panel.max(question.most)
    if question.words:
        panel.mappings([_words(question)])
    return panel


def _number(question: Question) -> stat.Panel:
    return (
        stat.Panel()
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(build_common.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_scheme(FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
    )


def _lines(question: Question) -> timeseries.Panel:
    stacked = question.look == "stacked"
    panel = (
        timeseries.Panel()
        .line_width(1)
        .fill_opacity(40 if stacked else 10)
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            build_common.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(
            build_common.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
        .color_scheme(FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    )
    if stacked:
        panel.stacking(build_common.StackingConfig().mode(common.StackingMode.NORMAL))
    if question.steps:
        style = common.GraphThresholdsStyleMode.DASHED
        panel.thresholds_style(build_common.GraphThresholdsStyleConfig().mode(style))
    for name, color in OUTCOMES.items():
        if any(name in _names(query.legend) for query in question.queries):
            panel.override_by_regexp(f"/(^| ){name}$/", _colored(color))
    return panel


def _names(legend: str) -> set[str]:
    """What series of this legend may be called, at the end."""
    last = legend.split(" ")[-1]
    return set(OUTCOMES) if last in ("{{outcome}}", "{{state}}") else {last}


def _colored(color: str) -> list[dashboard.DynamicConfigValue]:
    return [
        dashboard.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": color})
    ]


def _steps(question: Question) -> ThresholdsConfig:
    steps = [dashboard.Threshold(value=None, color=GREEN)]
    steps += [dashboard.Threshold(value=value, color=color) for value, color in question.steps]
    return ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _words(question: Question) -> dashboard.ValueMap:
    return dashboard.ValueMap(
        {
            f"{value:g}": dashboard.ValueMappingResult(text=word, color=color)
            for value, (word, color) in question.words.items()
        }
    )
