"""Convert a board to Grafana's own model of a dashboard, by its foundation SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders.dashboard import (
    AnnotationQuery,
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
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.places import address, numbers, title
from grafana.questions import (
    GREEN,
    OUTCOMES,
    Board,
    Choice,
    Link,
    Look,
    Mark,
    Query,
    Question,
    Words,
)

DATASOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "dispatcher"
WIDTH = 24
OVERVIEW = "dispatcher-overview"
SAME_TIME = "${datasource:queryparam}&${__url_time_range}"

Panel = stat.Panel | timeseries.Panel | table.Panel | statetimeline.Panel


def drawn(board: Board) -> dashboard.Dashboard:
    """Convert a board to a dashboard."""
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
        .with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    if board.uid != OVERVIEW:
        made.link(
            DashboardLink("Overview")
            .type(dashboard.DashboardLinkType.LINK)
            .url(f"/d/{OVERVIEW}?{SAME_TIME}&${{cluster:queryparam}}")
        )
    made.link(
        DashboardLink("Dispatcher")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .keep_time(True)
        .include_vars(True)
    )
    for choice in board.choices:
        made.with_variable(_variable(choice))
    for mark in board.marks:
        made.annotation(_annotation(mark))
    ids = numbers(board)
    at = 0
    for row, group in enumerate(board.groups, len(ids) + 1):
        made.with_row(Row(group.title).id(row).grid_pos(_place(0, at, WIDTH, 1)))
        at += 1
        for question, place in _placed(group.questions, at):
            made.with_panel(_panel(question).id(ids[question.title]).grid_pos(place))
            at = max(at, place.y + place.h)
    return made.build()


def text(board: Board) -> str:
    """Return the board as the JSON that Grafana imports."""
    written = json.dumps(drawn(board), cls=JSONEncoder, indent=2, sort_keys=True)
    return f"{written}\n"


def _placed(
    questions: tuple[Question, ...], top: int
) -> Iterator[tuple[Question, dashboard.GridPos]]:
    """Place panels next to each other as long as there is room."""
    x, y, height = 0, top, 0
    for question in questions:
        if x + question.width > WIDTH:
            x, y, height = 0, y + height, 0
        yield question, _place(x, y, question.width, question.height)
        x, height = x + question.width, max(height, question.height)


def _place(x: int, y: int, width: int, height: int) -> dashboard.GridPos:
    return dashboard.GridPos(h=height, w=width, x=x, y=y)


def _variable(choice: Choice) -> QueryVariable:
    where = f"{{{choice.where}}}" if choice.where else ""
    variable = (
        QueryVariable(choice.name)
        .label(choice.label)
        .datasource(DATASOURCE)
        .query(f"label_values({choice.metric}{where}, {choice.name})")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
        .multi(choice.several)
        .include_all(choice.several)
    )
    if choice.several:
        everything = dashboard.VariableOption(selected=True, text="All", value="$__all")
        variable.all_value(".*").current(everything)
    return variable


class _PrometheusAnnotation(dashboard.AnnotationQuery):
    """An annotation with the fields that Grafana's data source for Prometheus reads, and the model
    lacks."""

    mark: Mark

    def to_json(self) -> dict[str, object]:
        more = {"titleFormat": self.mark.title, "tagKeys": ",".join(self.mark.tags)}
        return super().to_json() | more


def _annotation(mark: Mark) -> AnnotationQuery:
    made = AnnotationQuery()
    annotation = _PrometheusAnnotation(
        mark.name, DATASOURCE, enable=True, icon_color=mark.color, expr=mark.expression
    )
    annotation.mark = mark
    made._internal = annotation
    return made


def _panel(question: Question) -> Panel:
    panel = LOOKS[question.look](question)
    panel.title(question.title).description(question.advice).datasource(DATASOURCE)
    panel.unit(question.unit).thresholds(_steps(question))
    for query, ref in _with_refs(question):
        made = Dataquery().expr(query.expression).ref_id(ref).datasource(DATASOURCE)
        if question.look == "table":
            made.instant().format(PromQueryFormat.TABLE)
        else:
            made.range()
            made.legend_format(f"{{{{cluster}}}} {query.legend}" if query.legend else "__auto")
        panel.with_target(made)
    if question.least is not None:
        panel.min(question.least)
    if question.most is not None:
        panel.max(question.most)
    if question.words:
        panel.mappings([_words(question.words)])
    if question.links:
        panel.data_links([_link(link) for link in question.links])
    return panel


def _with_refs(question: Question) -> Iterator[tuple[Query, str]]:
    for place, query in enumerate(question.queries):
        yield query, chr(ord("A") + place)


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
            panel.override_by_regexp(f"/(^| ){name}$/", _set(color=_fixed(color)))
    for query, ref in _with_refs(question):
        if query.unit:
            aside = _set(unit=query.unit, custom_axisPlacement="right")
            panel.override_by_query(ref, aside)
    return panel


def _timeline(question: Question) -> statetimeline.Panel:
    panel = (
        statetimeline.Panel()
        .show_value(common.VisibilityMode.NEVER)
        .row_height(0.8)
        .fill_opacity(80)
        .legend(build_common.VizLegendOptions().show_legend(False))
        .tooltip(build_common.VizTooltipOptions().mode(common.TooltipDisplayMode.SINGLE))
        .no_value("none")
    )
    for query, ref in _with_refs(question):
        if query.links:
            panel.override_by_query(ref, _set(links=[*map(_linked, query.links)]))
    return panel


def _table(question: Question) -> table.Panel:
    """Return a table with a row for each object, and a column for each query."""
    columns = {f"Value #{ref}": query for query, ref in _with_refs(question)}
    order = [*question.labels, *columns]
    panel = (
        table.Panel()
        .filterable(True)
        .with_transformation(dashboard.DataTransformerConfig("merge", options={}))
        .with_transformation(
            dashboard.DataTransformerConfig(
                "organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": {name: place for place, name in enumerate(order)},
                },
            )
        )
        .sort_by([build_common.TableSortByFieldState().display_name(_first(columns)).desc(True)])
    )
    for name, (heading, links) in question.labels.items():
        there = {"links": [_linked(link, table_row=True) for link in links]} if links else {}
        panel.override_by_name(name, _set(displayName=heading, **there))
    for name, query in columns.items():
        panel.override_by_name(name, _column(query))
    return panel


def _first(columns: dict[str, Query]) -> str:
    return next(iter(columns.values())).legend


def _column(query: Query) -> list[dashboard.DynamicConfigValue]:
    settings: dict[str, Any] = {"displayName": query.legend}
    if query.unit:
        settings["unit"] = query.unit
    if query.words:
        settings["mappings"] = [_words(query.words)]
        settings["custom_cellOptions"] = {"type": "color-text"}
    return _set(**settings)


LOOKS: Mapping[Look, Callable[[Question], Panel]] = {
    "lines": _lines,
    "stacked": _lines,
    "number": _number,
    "table": _table,
    "timeline": _timeline,
}


def _link(link: Link) -> DashboardLink:
    written = _linked(link)
    made = DashboardLink(written["title"]).url(written["url"])
    return made.type(dashboard.DashboardLinkType.LINK)


def _linked(link: Link, *, table_row: bool = False) -> dict[str, str]:
    """Return a link as a data link of Grafana; a missing label is written as nothing."""
    source = "__data.fields" if table_row else "__field.labels"

    def value_of(label: str) -> str:
        return f"${{{source}.{label}:percentencode}}"

    return {"title": title(link), "url": address(link, value_of, SAME_TIME)}


def _names(legend: str) -> set[str]:
    """Return a pattern of the names that series of this legend may have."""
    last = legend.split(" ")[-1]
    return set(OUTCOMES) if last in ("{{outcome}}", "{{state}}") else {last}


def _fixed(color: str) -> dict[str, str]:
    return {"mode": "fixed", "fixedColor": color}


def _set(**settings: Any) -> list[dashboard.DynamicConfigValue]:
    """Return properties of an override; those of the kind of panel begin with custom_."""
    return [
        dashboard.DynamicConfigValue(name.replace("custom_", "custom."), value)
        for name, value in settings.items()
    ]


def _steps(question: Question) -> ThresholdsConfig:
    steps = [dashboard.Threshold(value=None, color=GREEN)]
    steps += [dashboard.Threshold(value=value, color=color) for value, color in question.steps]
    return ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _words(words: Words) -> dashboard.ValueMap:
    return dashboard.ValueMap(
        {
            f"{value:g}": dashboard.ValueMappingResult(text=word, color=color)
            for value, (word, color) in words.items()
        }
    )
