"""Dashboards and rules: current, laid out without overlap, asking only for what there is."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from dispatcher.metrics import _names as names
from grafana import alerts, files, places, rules, units
from grafana.files import HERE
from grafana.pace import Pace

DASHBOARDS = sorted((HERE / "dashboards").glob("*.json"))
DOCUMENT = HERE.parent / "docs" / "dashboards.md"
LOGS = DOCUMENT.with_name("logs.md")
FROM_SCRAPING = {"instance", "job", "pod", "cluster"}
ALERT_LABELS = {"alertname", "alertstate", "severity"}
OF_ANNOTATIONS = {"titleFormat", "tagKeys"}
"""Fields of an annotation that Grafana's data source for Prometheus reads, and the model lacks."""
SUFFIXES = {"histogram": {"_bucket", "_sum", "_count"}, "summary": {"_sum", "_count"}}
LABELS: dict[str, set[str]] = {}
for _metric in names.METRICS:
    for _suffix in SUFFIXES.get(_metric.kind, {""}):
        LABELS.setdefault(_metric.name + _suffix, set()).update(_metric.labels, FROM_SCRAPING)
        if _suffix == "_bucket":
            LABELS[_metric.name + _suffix].add("le")


@pytest.fixture(params=DASHBOARDS, ids=lambda path: path.stem)
def board(request: pytest.FixtureRequest) -> Any:
    return json.loads(request.param.read_text())


def panels(board: Any) -> list[Any]:
    return [one for one in board["panels"] if one["type"] != "row"]


def expressions(board: Any) -> list[str]:
    return [target["expr"] for panel in panels(board) for target in panel["targets"]]


def all_boards() -> list[Any]:
    return [json.loads(path.read_text()) for path in DASHBOARDS]


def marks(board: Any) -> list[Any]:
    return list(board.get("annotations", {}).get("list", ()))


def all_expressions() -> list[str]:
    found = [expr for board in all_boards() for expr in expressions(board)]
    found += [one["expr"] for board in all_boards() for one in marks(board)]
    for group in rules.rules()["groups"]:
        found += [rule["expr"] for rule in group["rules"]]
    return found


def test_what_is_checked_in_is_what_the_code_makes() -> None:
    made = files.files()
    assert {path for path in made if path.suffix == ".json"} == set(DASHBOARDS)
    for path, text in made.items():
        assert path.read_text() == text, f"{path.name} is old: make dashboards"


def test_grafanas_own_model_reads_a_dashboard_and_loses_nothing(board: Any) -> None:
    for one in marks(board):
        assert {one.pop(name) != "" for name in OF_ANNOTATIONS} == {True}
    read = dashboard.Dashboard.from_json(board)
    assert json.loads(json.dumps(read, cls=JSONEncoder)) == board


def test_panels_lie_within_the_grid_and_do_not_overlap(board: Any) -> None:
    taken = [one["gridPos"] for one in board["panels"]]
    for place in taken:
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= 24
        assert min(place["w"], place["h"]) > 0
    for one, other in combinations(taken, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)
    ids = [one["id"] for one in board["panels"]]
    assert len(set(ids)) == len(ids)
    # Whole lines: no gap that looks as if something were missing.
    for top in {one["gridPos"]["y"] for one in panels(board)}:
        width = sum(one["gridPos"]["w"] for one in panels(board) if one["gridPos"]["y"] == top)
        assert width in (12, 24)


def test_every_panel_asks_a_question_and_says_what_to_do(board: Any) -> None:
    for panel in panels(board):
        assert panel["title"].endswith("?")
        assert len(panel["description"]) > 30, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["targets"], panel["title"]
    titles = [panel["title"] for panel in panels(board)]
    assert len(set(titles)) == len(titles)


def test_every_number_has_a_unit_that_says_what_is_counted(board: Any) -> None:
    known = {value for name, value in vars(units).items() if name.isupper()} - {units.COST_NAME}
    for panel in panels(board):
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in known
        columns = (
            []
            if panel["type"] != "table"
            else [f"Value #{one['refId']}" for one in panel["targets"]]
        )
        assert len(columns) != 1, "the only column would be called Value"
        for settings in [override_of(panel, name) for name in columns] or [defaults]:
            assert settings["unit"] in known
            # A word, such as yes, or no: it needs no unit.
            assert (settings["unit"] == units.WORD) == ("mappings" in settings), panel["title"]


def override_of(panel: Any, name: str) -> dict[str, Any]:
    [properties] = [
        one["properties"]
        for one in panel["fieldConfig"]["overrides"]
        if one["matcher"] == {"id": "byName", "options": name}
    ]
    return {one["id"]: one["value"] for one in properties}


def data_links(board: Any) -> list[tuple[str, str, set[str]]]:
    """Where they are, where they lead, and the labels that are left there."""
    found = []
    for panel in panels(board):
        config = panel["fieldConfig"]
        asked = {one["refId"]: labels_left(one["expr"]) for one in panel["targets"]}
        left = set.intersection(*asked.values())
        found += [(panel["title"], one["url"], left) for one in config["defaults"].get("links", ())]
        for override in config["overrides"]:
            which = override["matcher"]["options"]
            labels = asked.get(which, set.union(*asked.values()))
            for one in override["properties"]:
                if one["id"] == "links":
                    found += [(panel["title"], each["url"], labels) for each in one["value"]]
    return found


def labels_left(expression: str) -> set[str]:
    """The labels that series still have, if all that is grouped is grouped by them."""
    groups = [one.split(", ") for one in re.findall(r"\bby \(([^)]*)\)", expression)]
    return {label for group in groups for label in group}


def test_a_data_link_leads_to_a_dashboard_and_chooses_by_labels_that_are_there(board: Any) -> None:
    links = data_links(board)
    assert links or board["uid"] == "dispatcher-spark"
    boards = {one["uid"]: one for one in all_boards()}
    for title, url, left in links:
        path, _, query = url.partition("?")
        target = boards[path.removeprefix("/d/")]
        variables = {one["name"] for one in target["templating"]["list"]}
        assert "${datasource:queryparam}&${__url_time_range}" in query, title
        chosen = re.findall(
            r"var-(\w+)=\$\{__(?:field\.labels|data\.fields)\.(\w+):percentencode\}", query
        )
        assert len(chosen) == query.count("var-") > 0, title
        for variable, label in chosen:
            assert variable == label
            assert label in variables, (title, target["uid"])
            assert label in left, title
        for panel in re.findall(r"viewPanel=(.*)$", query):
            assert int(panel) in {one["id"] for one in panels(target)}


def test_each_dashboard_is_reached_from_the_overview_and_leads_back() -> None:
    boards = {one["uid"]: one for one in all_boards()}
    reached = {
        url.partition("?")[0].removeprefix("/d/")
        for _, url, _ in data_links(boards["dispatcher-overview"])
    }
    assert reached == set(boards)
    for uid in boards.keys() - {"dispatcher-overview"}:
        assert any(
            one["url"].startswith("/d/dispatcher-overview?")
            for one in boards[uid]["links"]
            if "url" in one
        )


def test_the_same_name_in_two_clusters_is_two_things(board: Any) -> None:
    [variable] = [one for one in board["templating"]["list"] if one["name"] == "cluster"]
    assert variable["current"]["value"] == "$__all"
    assert variable["allValue"] == ".*"
    for expression in [*expressions(board), *(one["expr"] for one in marks(board))]:
        for metric, matchers in re.findall(
            r"\b(dispatcher_\w+|ALERTS)(?:\{([^}]*)\})?", expression
        ):
            assert re.match(r'cluster=~"\$cluster\|?"', matchers), (metric, expression)
        for grouping in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
            assert grouping.split(", ")[0] == "cluster", expression


def test_every_variable_is_used_and_every_one_used_is_there(board: Any) -> None:
    variables = {one["name"] for one in board["templating"]["list"]}
    said = json.dumps(board["panels"])
    used = set(re.findall(r"\$\{?([a-z]\w*)", said))
    assert used == variables
    assert all(
        one["datasource"]["uid"] == "${datasource}"
        for panel in panels(board)
        for one in [panel, *panel["targets"]]
    )
    uids = [json.loads(path.read_text())["uid"] for path in DASHBOARDS]
    assert len(set(uids)) == len(uids)


def test_variables_list_values_that_a_metric_has(board: Any) -> None:
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            of = r'(?:\{cluster=~"\$cluster"(?:, limit="\$limit")?\})?'
            pattern = rf"label_values\((\w+){of}, (\w+)\)"
            found = re.fullmatch(pattern, variable["query"])
            assert found, variable
            assert found[2] in LABELS[found[1]]


@pytest.mark.parametrize("expression", sorted(set(all_expressions())))
def test_what_is_asked_for_exists(expression: str) -> None:
    recorded = {record.name for record in alerts.RECORDS}
    asked = re.findall(r"\b(dispatcher_\w+)(?:\{([^}]*)\})?", expression)
    assert asked or "dispatcher:" in expression or "ALERTS" in expression
    there = set().union(*LABELS.values(), ALERT_LABELS) if "ALERTS" in expression else set()
    for metric, matchers in asked:
        assert metric in LABELS, metric
        there |= LABELS[metric]
        for label in re.findall(r"(\w+)\s*[=!]", re.sub(r'"[^"]*"', '""', matchers or "")):
            assert label in LABELS[metric], f"{metric} has no label {label}"
    for grouping in re.findall(r"\bby \(([^)]*)\)", expression):
        assert {label.strip() for label in grouping.split(",")} <= there, expression
    assert set(re.findall(r"dispatcher:\w+:\w+", expression)) <= recorded


def test_every_legend_names_labels_that_are_left(board: Any) -> None:
    for panel in panels(board):
        for target in panel["targets"]:
            assert target.get("legendFormat", "").count("{{cluster}}") <= 1
            for label in re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")):
                kept = re.findall(r"\bby \(([^)]*)\)", target["expr"])
                assert any(label in one.split(", ") for one in kept), panel["title"]


RECORDED = {record.name: record.expression(Pace()) for record in alerts.RECORDS}


def measured(expression: str) -> set[str]:
    """The metrics asked for; one of each instance is as good as that of all of them."""
    for name, meant in RECORDED.items():
        expression = expression.replace(name, meant)
    asked = re.findall(r"\bdispatcher_\w+", expression)
    return {re.sub(r"dispatcher_(cluster|member)_", "dispatcher_", one) for one in asked}


@pytest.mark.parametrize("alert", alerts.ALERTS, ids=lambda alert: alert.name)
def test_an_alert_leads_to_a_panel_that_asks_for_what_it_is_about(alert: alerts.Alert) -> None:
    boards = {one["uid"]: one for one in all_boards()}
    about = alert.expression(Pace())
    for link in filter(None, (alert.seen, alert.seen_of_batcher)):
        [panel] = [one for one in panels(boards[link.board]) if one["title"] == link.panel]
        assert panel["id"] == places.numbers(places.BY_UID[link.board])[link.panel]
        asked = " ".join(target["expr"] for target in panel["targets"])
        assert measured(asked) & measured(about)
        variables = {one["name"] for one in boards[link.board]["templating"]["list"]}
        assert {*link.choices} <= variables
        # The panel of what an alert is about, not of the first thing in a list.
        single = {
            one["name"] for one in boards[link.board]["templating"]["list"] if not one.get("multi")
        }
        assert single - {"datasource"} <= {*link.choices}
        assert any(
            {*link.choices} <= LABELS[metric]
            for metric in re.findall(r"\bdispatcher_\w+", " ".join([about, *RECORDED.values()]))
        )
    overview = dict(links_of_alerts(boards["dispatcher-overview"]))
    assert alert.name in overview


def links_of_alerts(board: Any) -> list[tuple[str, str]]:
    """The alerts in the panel that lists them, and where each leads."""
    [panel] = [one for one in panels(board) if one["type"] == "state-timeline"]
    found = []
    for target in panel["targets"]:
        [links] = [
            one["properties"][0]["value"]
            for one in panel["fieldConfig"]["overrides"]
            if one["matcher"] == {"id": "byFrameRefID", "options": target["refId"]}
        ]
        names = re.findall(r'alertname=~"([^"]*)"', target["expr"])[0].split("|")
        found += [(name, link["url"]) for name in names for link in links]
    return found


def test_the_overview_and_the_alerts_themselves_lead_to_the_same_panels() -> None:
    [overview] = [one for one in all_boards() if one["uid"] == "dispatcher-overview"]
    told: dict[str, set[str]] = {}
    for name, url in links_of_alerts(overview):
        told.setdefault(name, set()).add(re.sub(r"\?.*(?=viewPanel)", "?", url))
    [_, group] = rules.rules()["groups"]
    for rule in group["rules"]:
        parts = re.findall(r"/d/[\w-]+\?.*?viewPanel=\d+", rule["annotations"]["dashboard"])
        assert {re.sub(r"\?.*(?=viewPanel)", "?", one) for one in parts} == told[rule["alert"]]


@pytest.mark.parametrize("alert", alerts.ALERTS, ids=lambda alert: alert.name)
def test_every_alert_says_what_to_do_and_where_to_read_more(alert: alerts.Alert) -> None:
    assert re.fullmatch(r"Dispatcher[A-Z]\w+", alert.name)
    assert len(alert.what_to_do) > 80
    assert alert.what_to_do.endswith(".")
    assert f"\n### {alert.name}\n" in DOCUMENT.read_text()


def test_what_an_alert_says_is_in_the_log_is_there() -> None:
    said = " ".join([*(one.what_to_do for one in alerts.ALERTS), DOCUMENT.read_text()])
    happenings = set(re.findall(r"^\| (`.*?`) \|", LOGS.read_text(), re.MULTILINE))
    named = set(re.findall(r"`([a-z]+-[a-z]+)`", said))
    assert len(named) > 1
    assert named <= set(re.findall(r"`([a-z-]+)`", " ".join(happenings)))
    assert "logger" not in said


def test_the_document_has_no_alert_that_is_none() -> None:
    told = set(re.findall(r"^### (Dispatcher\w+)$", DOCUMENT.read_text(), re.MULTILINE))
    assert told == {alert.name for alert in alerts.ALERTS}


def seconds_in(text: str) -> list[float]:
    """The times that rules look back, and hold on for."""
    found = re.findall(r"(?:\[|^ +for: )(\d+)(ms|s|m|h)", text, re.MULTILINE)
    return [int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit] for number, unit in found]


def test_another_pace_changes_all_times_and_nothing_else() -> None:
    usual, fast = rules.text(), rules.text(Pace(1 / 200))
    assert seconds_in(fast) == pytest.approx([each / 200 for each in seconds_in(usual)])
    assert max(seconds_in(rules.text(Pace(1 / 200, least=5)))) == 432
    times = re.compile(r"\[\w+\]|for: \w+|_due_seconds\) > [\d.]+")
    assert times.sub("", " ".join(fast.split())) == times.sub("", " ".join(usual.split()))


def test_nothing_runs_as_root_and_every_image_is_one_version() -> None:
    services = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]
    written = (HERE / "Dockerfile").read_text()
    images = re.findall(r"^FROM (\S+)$", written, re.MULTILINE)
    for image in [*images, *(one["image"] for one in services.values() if "image" in one)]:
        assert re.search(r":v?\d+\.\d+\.\d+(-[a-z-]+)?$", image), image
    [user] = re.findall(r"^USER (\d+):\d+$", written, re.MULTILINE)
    assert int(user) > 0
    assert written.index("USER") > written.rindex("RUN")


def test_the_compose_file_mounts_what_there_is() -> None:
    services = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]
    assert {"redis", "prometheus", "grafana", "exporter", "worker-1", "worker-2"} <= set(services)
    for service in services.values():
        assert ("image" in service) != ("build" in service)
        # Of no registry in particular: the first part of a name with a dot would be a host.
        assert "." not in service.get("image", "").split(":")[0].split("/")[0]
        for volume in service.get("volumes", ()):
            assert (HERE / volume.split(":")[0]).exists(), volume
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), port
        for needed in service.get("depends_on", ()):
            assert needed in services
        build = service.get("build")
        if build:
            context = HERE / build["context"]
            written = (context / build["dockerfile"]).read_text()
            for copied in re.findall(r"^COPY (.+) \S+$", written, re.MULTILINE):
                assert all((context / each).exists() for each in copied.split()), copied


def test_prometheus_scrapes_the_services_of_the_compose_file() -> None:
    services = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]
    settings = yaml.safe_load((HERE / "prometheus.yml").read_text())
    for job in settings["scrape_configs"]:
        for target in job["static_configs"][0]["targets"]:
            host, port = target.split(":")
            assert host in services
            told = " ".join(services[host]["command"])
            assert f"--metrics-port={port}" in told or (host == "exporter" and port == "9890")
    assert [str(one) for one in HERE.glob(settings["rule_files"][0])]


def test_grafana_is_provisioned_with_where_prometheus_and_the_dashboards_are() -> None:
    services = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]
    places = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    inside = {target: HERE / source for source, target in places.items()}
    providers = yaml.safe_load((HERE / "provisioning/dashboards/dispatcher.yml").read_text())
    path = providers["providers"][0]["options"]["path"]
    assert list(Path(inside[path]).glob("*.json")) != []
    sources = yaml.safe_load((HERE / "provisioning/datasources/prometheus.yml").read_text())
    assert re.fullmatch(r"http://(\w+):9090", sources["datasources"][0]["url"])
    assert inside["/etc/grafana/provisioning"] == HERE / "provisioning"
