"""Prometheus sees it: every query has an answer, every alert fires for its cause and resolves.

The rules are those that are checked in, made by the same code, at two hundred times the pace: five
minutes are a second and a half.
"""

from __future__ import annotations

import json
import math
import re
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
import yaml

from grafana import rules
from grafana.alerts import ALERTS, LIMIT_NAMED, LIMIT_NAMED_FIRST, RECORDS, Alert
from grafana.files import HERE
from grafana.pace import Pace
from grafana.places import address
from tests.processes.troubled import Example
from tests.programs import needs
from tests.servers.alerts import firing, noted
from tests.servers.prometheus import Prometheus, promtool
from tests.waiting import until

pytestmark = needs("prometheus")

PACE = Pace(1 / 200, least=5)
PATIENCE = 240.0
WRONG = {
    ("Unwatched", ""),
    ("RedisAway", "dispatcher-cluster"),
    ("RedisAway", "far"),
    ("SyncFailing", "far"),
    ("LimitNearlyUsed", "orders"),
    ("Throttled", "refused"),
    ("BatchesFailing", "refused"),
    ("EstimatesOff", "refused"),
    ("CapacityIdle", "hoarded"),
    ("SlotsTaken", "contract"),
    ("DimensionNeverBinds", "contract"),
    ("NothingGranted", "doubted"),
    ("Refused", "misfit"),
    ("BufferNearlyFull", "orders"),
    ("BacklogGrowing", "letters"),
    ("TopicLate", "letters"),
    ("NobodyConsumes", "letters"),
    ("DeadLetters", "mails"),
    ("ClockDrift", "dispatcher-cluster"),
    ("SparkRowsRejected", "clicks"),
}
"""Each cause in the example: its alert, and the object of the alert."""
SURE = {"RedisAway", "Throttled", "DeadLetters", "ClockDrift", "SparkRowsRejected"}
"""Alerts that a slow machine cannot cause; it may cause the others."""
BUSY = {("BufferNearlyFull", "refused"), ("LimitNearlyUsed", "refused")}
"""Alerts that are right once nothing is refused any more."""


def choices(example: Example) -> tuple[dict[str, str], ...]:
    """Return choices of a user: a limit of one dimension, and one of several."""
    return (
        {"limit": "orders", "instance": example.good[0].place},
        {"limit": "contract", "instance": example.hung.place},
    )


def substituted(expression: str, choice: dict[str, str]) -> str:
    """Fill in the variables of a dashboard."""
    several = re.sub(r'=~"\$\w+"', '=~".*"', expression)
    chosen = choice | {
        "cluster": ".*",
        "topic": "mails",
        "__interval": "5s",
        "__rate_interval": "5s",
        "__range": "1m",
    }
    return re.sub(r"\$(\w+)", lambda found: chosen[found[1]], several)


def panels() -> Iterator[tuple[str, str]]:
    """Each query of each panel and annotation, and where it stands."""
    for path in sorted((HERE / "dashboards").glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']}", target["expr"]
        for annotation in board.get("annotations", {}).get("list", ()):
            yield f"{path.stem}: {annotation['name']}", annotation["expr"]


def leads_to(alert: Alert, **labels: str) -> str:
    """The panel that explains it, with the values of the labels as an address has them."""
    own = alert.seen_of_batcher if "batcher" in labels else None
    return address(own or alert.seen, lambda label: quote_plus(labels.get(label, "")))


def scraped(place: str) -> str:
    with urllib.request.urlopen(f"http://{place}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.timeout(600)
def test_every_query_has_an_answer_and_every_alert_fires_for_its_cause_and_resolves(
    tmp_path: Path,
) -> None:
    with ExitStack() as ended:
        example = Example(tmp_path, ended)
        example.start()
        written = rules.text(PACE)
        prometheus = ended.enter_context(Prometheus(tmp_path, example.jobs, written))
        seen = ended.enter_context(noted(prometheus))

        # No program watches yet.
        until(lambda: ("Unwatched", "") in seen, within=PATIENCE)
        until(example.is_known)
        example.watch()
        until(lambda: prometheus.now('dispatcher_cluster_demand{limit="far"} > 0'), within=PATIENCE)
        known = 'dispatcher_cluster_capacity{limit="orders"} offset 5s'
        until(lambda: prometheus.now(known), within=PATIENCE)
        example.change("orders")
        example.far.kill()

        try:
            until(lambda: seen >= WRONG, within=PATIENCE)
        except AssertionError:
            pytest.fail(f"not firing: {WRONG - seen}; active: {prometheus.alerts()}")
        for place in (example.jobs["dispatcher-cluster"][0], *example.jobs["dispatcher-worker"]):
            assert promtool("check", "metrics", given=scraped(place)) == "", place

        example.mend()
        try:
            # What is refused no more goes on, and uses its limit: that is no trouble of this kind.
            until(lambda: not firing(prometheus) - BUSY, within=PATIENCE)
            example.refused.close()
            until(lambda: not prometheus.firing(), within=PATIENCE)
        except AssertionError:
            pytest.fail(f"not resolved: {prometheus.alerts()}")
        assert {one for one in seen - WRONG if one[0] in SURE} == set()

        asked = [*panels(), *((record.name, record.name) for record in RECORDS)]
        silent = [
            (where, expression)
            for where, expression in asked
            if all(
                math.isnan(value)
                for choice in choices(example)
                for value in prometheus.values(substituted(expression, choice))
            )
        ]
        assert silent == []


def test_every_alert_has_a_cause_in_the_example() -> None:
    assert {f"Dispatcher{name}" for name, _ in WRONG} == {alert.name for alert in ALERTS}


def test_promtool_finds_nothing_in_the_rules_at_either_pace(tmp_path: Path) -> None:
    for number, written in enumerate((rules.text(), rules.text(PACE))):
        path = tmp_path / f"{number}.yml"
        path.write_text(written)
        said = promtool("check", "rules", "--lint=all", "--lint-fatal", str(path))
        assert f"SUCCESS: {len(ALERTS) + len(RECORDS)} rules found" in said


@pytest.mark.parametrize(("limit", "known"), [("", "Batcher mails"), ("own", "limit own")])
def test_what_has_no_shared_limit_is_known_by_its_batcher_or_its_own_limit(
    tmp_path: Path, limit: str, known: str
) -> None:
    (tmp_path / "rules.yml").write_text(rules.text())
    of = f'batcher="mails", limit="{limit}", instance="here:1", job="shop"'
    labels = {"batcher": "mails"} | ({"limit": limit} if limit else {})
    expected = {
        "DispatcherThrottled": f"The datastore refuses what {known} allows (429)",
        "DispatcherBatchesFailing": f"100% of the batches of {known} fail",
    }
    [_, group] = rules.rules()["groups"]
    by_name = {alert.name: alert for alert in ALERTS}
    told = {
        rule["alert"]: {
            "exp_labels": rule["labels"] | labels,
            "exp_annotations": rule["annotations"]
            | {
                "summary": expected[rule["alert"]],
                "dashboard": leads_to(by_name[rule["alert"]], **labels),
            },
        }
        for rule in group["rules"]
        if rule["alert"] in expected
    }
    asked = {
        "rule_files": ["rules.yml"],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": f"dispatcher_throttled_total{{{of}}}", "values": "0+60x30"},
                    {
                        "series": f'dispatcher_batches_total{{{of}, outcome="failed"}}',
                        "values": "0+60x30",
                    },
                ],
                "alert_rule_test": [
                    {"eval_time": "20m", "alertname": name, "exp_alerts": [alert]}
                    for name, alert in told.items()
                ],
            }
        ],
    }
    (tmp_path / "asked.yml").write_text(yaml.safe_dump(asked))
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "asked.yml"))


def test_the_rows_in_a_batch_of_spark_are_those_that_were_sent_in_it(tmp_path: Path) -> None:
    where = "dispatcher-spark: How large are batches?"
    expression = shown(where, cluster=".*", query=".*", __rate_interval="5m")
    # A micro-batch that is run again has all of its rows, and few of them are sent.
    series = {
        'dispatcher_spark_rows_total{query="clicks", outcome="replayed"}': 860,
        'dispatcher_spark_rows_total{query="clicks", outcome="sent"}': 140,
        'dispatcher_spark_input_rows_total{query="clicks"}': 1_000,
        'dispatcher_spark_batches_total{query="clicks"}': 2,
    }
    run_queries(
        tmp_path,
        {name: f"0+{more}x30" for name, more in series.items()},
        [(expression, "20m", [{"labels": '{query="clicks"}', "value": 70}])],
    )


def test_single_requests_that_are_lost_notify_no_one_and_an_instance_that_is_cut_off_does(
    tmp_path: Path,
) -> None:
    (tmp_path / "rules.yml").write_text(rules.text())
    own = 'dispatcher_sync_failures_total{limit="%s", instance="%s", job="shop"}'
    all_ = 'dispatcher_cluster_sync_failures_total{limit="%s", instance="x", job="exporter"}'
    members = 'dispatcher_cluster_members{limit="%s", state="active", instance="x", job="exporter"}'
    series = {
        **{own % ("large", f"host-{number}"): "0+0x19 1+0x40" for number in range(2)},
        all_ % "large": "0+1x60",  # of five hundred, one loses a request each minute
        members % "large": "500+0x60",
        own % ("cut", "host"): "0+120x60",
        own % ("cut", "other"): "0+0x60",
        own % ("slow", "scraped"): "0+0x60",
        all_ % "slow": "0+300x60",  # a process that is not scraped reports it later
        members % "slow": "10+0x60",
    }
    alert = next(one for one in ALERTS if one.name == "DispatcherSyncFailing")
    [rule] = [one for one in rules.rules()["groups"][1]["rules"] if one.get("alert") == alert.name]
    expected = []
    for limit in ("cut", "slow"):
        summary = alert.summary.replace("{{ $labels.limit }}", limit)
        expected.append(
            {
                "exp_labels": rule["labels"] | {"limit": limit},
                "exp_annotations": rule["annotations"]
                | {"summary": summary, "dashboard": leads_to(alert, limit=limit)},
            }
        )
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": told} for name, told in series.items()],
        "alert_rule_test": [{"eval_time": "40m", "alertname": alert.name, "exp_alerts": expected}],
    }
    asked = {"rule_files": ["rules.yml"], "tests": [test]}
    (tmp_path / "asked.yml").write_text(yaml.safe_dump(asked))
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "asked.yml"))


OF_API = 'limit="api", instance="x", job="exporter"'
IN_USE = {"requests": 590, "tokens": 3_000}
"""Spending of each in a minute."""


def of_costs(
    of: str, estimated: float, actual: float | None = None, *, length: int = 30
) -> dict[str, str]:
    """Counters of a limit, of so much estimated and actual cost a minute, and what counts."""
    more = (estimated if actual is None else actual) - estimated
    minutes = {"spent": estimated, "refunded": max(0, -more), "excess": max(0, more)}
    series = {
        f'dispatcher_cluster_{counter}_cost_total{{{of}, kind="shared"}}': f"0+{cost}x{length}"
        for counter, cost in minutes.items()
    }
    counts = f"{estimated if actual is None else max(estimated, actual)}+0x{length}"
    return series | {f"dispatcher_cluster_spent_last_period_cost{{{of}}}": counts}


def of_api(**busy: str) -> dict[str, str]:
    """A limit of 600 requests and 90,000 tokens a minute, and of 20 calls in flight."""
    series = {
        f'dispatcher_cluster_period_seconds{{{OF_API}, dimension="{name}"}}': "60+0x1500"
        for name in IN_USE
    }
    for name, capacity in (("requests", 600), ("tokens", 90_000), ("calls", 20)):
        of = f'{OF_API}, dimension="{name}"'
        series[f'dispatcher_cluster_capacity{{{of}, kind="shared"}}'] = f"{capacity}+0x1500"
        series[f"dispatcher_cluster_demand{{{of}}}"] = f"{2 * capacity}+0x1500"
    for name, spent in IN_USE.items():
        series |= of_costs(f'{OF_API}, dimension="{name}"', spent, length=1500)
    for state, values in (
        {"idle": "0+0x1500", "free": "0+0x1500", "overdue": "0+0x1500"} | busy
    ).items():
        of = f'{OF_API}, dimension="calls", state="{state}"'
        series[f"dispatcher_cluster_inflight_slots{{{of}}}"] = values
    return series


def expected(name: str, value: str, **labels: str) -> dict[str, object]:
    """An alert as promtool expects it; `value`: as its summary has it."""
    [alert] = [one for one in ALERTS if one.name == name]
    [rule] = [one for one in rules.rules()["groups"][1]["rules"] if one["alert"] == name]
    limit = f"Limit {labels['limit']} ({labels['dimension']})"
    summary = alert.summary.replace(LIMIT_NAMED_FIRST, limit)
    summary = summary.replace(LIMIT_NAMED, limit.replace("L", "l", 1))
    summary = summary.replace("{{ $value | humanizePercentage }}", value)
    annotations = {"summary": summary, "dashboard": leads_to(alert, **labels)}
    return {
        "exp_labels": rule["labels"] | labels,
        "exp_annotations": rule["annotations"] | annotations,
    }


def fires(directory: Path, series: dict[str, str], *asked: tuple[str, str, list[Any]]) -> None:
    """Have promtool say that these alerts fire at these times."""
    (directory / "rules.yml").write_text(rules.text())
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": time, "alertname": name, "exp_alerts": alerts}
            for name, time, alerts in asked
        ],
    }
    written = yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [test]})
    (directory / "asked.yml").write_text(written)
    assert "SUCCESS" in promtool("test", "rules", str(directory / "asked.yml"))


def test_of_several_dimensions_the_one_that_is_nearly_used_is_named_and_no_other(
    tmp_path: Path,
) -> None:
    """Tokens are used to a thirtieth although more of them is wanted: requests bind."""
    fires(
        tmp_path,
        of_api(busy="7+0x1500"),
        (
            "DispatcherLimitNearlyUsed",
            "40m",
            [expected("DispatcherLimitNearlyUsed", "98.33%", limit="api", dimension="requests")],
        ),
        ("DispatcherCapacityIdle", "40m", []),
        ("DispatcherSlotsTaken", "40m", []),
    )


def test_a_dimension_that_no_cost_names_is_reported_and_one_that_is_used_is_not(
    tmp_path: Path,
) -> None:
    name = "DispatcherDimensionNeverBinds"
    tokens = expected(name, "3.333%", limit="api", dimension="tokens")
    calls = expected(name, "0%", limit="api", dimension="calls")
    fires(
        tmp_path,
        of_api(busy="0+0x1500"),
        (name, "50m", []),  # not before it was so for an hour
        (name, "90m", [tokens, calls]),
    )
    fires(
        tmp_path,
        # Once in the last day four calls ran at the same time.
        of_api(busy="0+0x100 4+0x5 0+0x1390"),
        (name, "90m", [tokens, calls]),
        (name, "1300m", [tokens]),
    )


def test_n1_slots_that_are_all_taken_are_reported_lost_ones_included(tmp_path: Path) -> None:
    name = "DispatcherSlotsTaken"
    fires(
        tmp_path,
        of_api(busy="20+0x20 19+0x30 18+0x100", overdue="0+0x50 2+0x100"),
        (name, "5m", []),
        (name, "15m", [expected(name, "", limit="api", dimension="calls")]),
        (name, "40m", []),
        (name, "70m", [expected(name, "", limit="api", dimension="calls")]),
    )


def test_capacity_is_idle_only_if_no_dimension_is_used(tmp_path: Path) -> None:
    series = of_api(busy="3+0x1500")
    for name in IN_USE:
        series |= of_costs(f'{OF_API}, dimension="{name}"', 300, length=1500)
    fires(tmp_path, series, ("DispatcherCapacityIdle", "40m", [idle("50%")]))


def idle(used: str) -> dict[str, object]:
    name = "DispatcherCapacityIdle"
    [alert] = [one for one in ALERTS if one.name == name]
    [rule] = [one for one in rules.rules()["groups"][1]["rules"] if one["alert"] == name]
    summary = alert.summary.replace("{{ $labels.limit }}", "api")
    return {
        "exp_labels": rule["labels"] | {"limit": "api"},
        "exp_annotations": rule["annotations"]
        | {
            "summary": summary.replace("{{ $value | humanizePercentage }}", used),
            "dashboard": leads_to(alert, limit="api"),
        },
    }


def test_a_limit_is_used_by_actual_costs_and_taken_by_estimates(tmp_path: Path) -> None:
    """Estimates are three times too high, so a third is used while there is no room: that is no
    limit that is used up, and the room that is lost has a cause that the dashboard shows."""
    series = of_api(busy="1+0x1500") | of_costs(
        f'{OF_API}, dimension="requests"', 594, 198, length=1500
    )
    series |= of_costs(f'{OF_API}, dimension="tokens"', 90_000, 3_000, length=1500)
    fires(
        tmp_path,
        series,
        ("DispatcherLimitNearlyUsed", "40m", []),
        ("DispatcherCapacityIdle", "40m", [idle("33%")]),
        # Tokens are used to a thirtieth, but their estimates are what all others wait for.
        ("DispatcherDimensionNeverBinds", "90m", [never_binds_calls("5%")]),
    )
    chosen = {"cluster": ".*", "limit": "api", "dimension": "requests", "__rate_interval": "5m"}
    used, binds = "dispatcher-limit: Is the limit used?", "dispatcher-limit: Which dimension binds?"
    requests = '{limit="api", dimension="requests"}'
    panels = (
        (shown(used, "refunded", **chosen), requests, 198),
        (shown(used, "last_period", **chosen), requests, 594),
        (shown(binds, **chosen), requests, 0.99),
        (
            shown("dispatcher-overview: Are the limits used?", **chosen | {"limit": ".*"}),
            '{limit="api"}',
            0.33,
        ),
    )
    run_queries(
        tmp_path,
        series,
        [(query, "20m", [{"labels": of, "value": value}]) for query, of, value in panels],
    )


def never_binds_calls(taken: str) -> dict[str, object]:
    return expected("DispatcherDimensionNeverBinds", taken, limit="api", dimension="calls")


def test_an_excess_raises_what_is_used(tmp_path: Path) -> None:
    series = of_api(busy="1+0x1500") | of_costs(
        f'{OF_API}, dimension="requests"', 300, 594, length=1500
    )
    nearly = expected("DispatcherLimitNearlyUsed", "99%", limit="api", dimension="requests")
    fires(tmp_path, series, ("DispatcherLimitNearlyUsed", "40m", [nearly]))


def test_more_refunds_than_calls_for_a_moment_are_no_use_below_zero(tmp_path: Path) -> None:
    of = 'limit="api", instance="x", job="exporter"'
    series = of_costs(of, 0, -60) | {f"dispatcher_cluster_period_seconds{{{of}}}": "1+0x30"}
    where = "dispatcher-limit: Is the limit used?", "refunded"
    chosen = {"cluster": ".*", "limit": "api", "dimension": ".*", "__rate_interval": "5m"}
    none = [{"labels": '{limit="api"}', "value": 0}]
    run_queries(tmp_path, series, [(shown(*where, **chosen), "20m", none)])


def test_each_dimension_has_its_line_and_its_row_and_a_scalar_limit_one(tmp_path: Path) -> None:
    where = "dispatcher-limit: Which dimension binds?"
    chosen = {"cluster": ".*", "limit": "api", "__rate_interval": "5m"}
    requests = {"labels": '{limit="api", dimension="requests"}', "value": 590 / 600}
    tokens = {"labels": '{limit="api", dimension="tokens"}', "value": 3_000 / 90_000}
    calls = {"labels": '{limit="api", dimension="calls"}', "value": 0.35}
    run_queries(
        tmp_path,
        of_api(busy="7+0x1500"),
        [
            (shown(where, dimension=".*", **chosen), "20m", [requests, tokens, calls]),
            (shown(where, dimension="tokens", **chosen), "20m", [tokens]),
        ],
    )
    scalar = 'limit="api", instance="x", job="exporter"'
    run_queries(
        tmp_path,
        {
            f"dispatcher_cluster_period_seconds{{{scalar}}}": "60+0x30",
            f'dispatcher_cluster_capacity{{{scalar}, kind="shared"}}': "10+0x30",
        }
        | of_costs(scalar, 5),
        [
            (
                shown(where, dimension=".*", **chosen),
                "20m",
                [{"labels": '{limit="api"}', "value": 0.5}],
            )
        ],
    )


def test_the_table_of_instances_has_a_row_for_each_dimension_and_those_that_are_refused(
    tmp_path: Path,
) -> None:
    where = "dispatcher-limit: Who shares it?"
    chosen = {"cluster": ".*", "limit": "api", "dimension": ".*"}
    first, second = (f'member="host:{number}"' for number in (1, 2))
    one, scraped_ = f'limit="api", {first}', 'instance="%s", job="pods", limit="api"'
    series = {
        f'dispatcher_member_partitions{{{one}, dimension="tokens"}}': "40+0x9",
        f'dispatcher_member_partitions{{{one}, dimension="calls"}}': "20+0x9",
        f"dispatcher_member_silent_seconds{{{one}}}": "0.3+0x9",
        f"dispatcher_limiter_info{{{scraped_ % 'a'}, {first}}}": "1+0x9",
        f"dispatcher_refused{{{scraped_ % 'a'}}}": "0+0x9",
        f"dispatcher_limiter_info{{{scraped_ % 'b'}, {second}}}": "1+0x9",
        f"dispatcher_refused{{{scraped_ % 'b'}}}": "1+0x9",
    }
    rows = [f'{first}, dimension="{name}"' for name in ("tokens", "calls")]
    run_queries(
        tmp_path,
        series,
        [
            (
                shown(where, "silent", **chosen),
                "5m",
                [{"labels": f"{{{row}}}", "value": 0.3} for row in rows],
            ),
            (
                shown(where, "dispatcher_refused", **chosen),
                "5m",
                [
                    *({"labels": f'{{{row}, instance="a"}}', "value": 0} for row in rows),
                    {"labels": f'{{{second}, instance="b"}}', "value": 1},
                ],
            ),
        ],
    )


def shown(where: str, metric: str = "", **variables: str) -> str:
    """A query of a panel, or an annotation, with variables as a user has chosen them."""
    [expression] = [asked for place, asked in panels() if place == where and metric in asked]
    for name, value in variables.items():
        expression = expression.replace(f"${name}", value)
    return expression


def test_a_limit_of_the_same_name_in_two_clusters_is_two_limits_and_one_can_be_chosen(
    tmp_path: Path,
) -> None:
    of = 'cluster="%s", instance="%s", job="exporter"'
    series: dict[str, str] = {}
    for cluster, scale in (("east", 1), ("west", 2)):
        for exporter in ("x", "y"):  # a second one shows the same
            at = of % (cluster, exporter)
            series |= of_costs(f'limit="orders", {at}', scale * 600)
            series[f'dispatcher_cluster_period_seconds{{limit="orders", {at}}}'] = "1+0x30"
    query = {"limit": "orders", "dimension": ".*", "__rate_interval": "5m"}
    where = "dispatcher-limit: Is the limit used?", "dispatcher_cluster_spent_cost_total"
    east = {"labels": '{cluster="east", limit="orders"}', "value": 10}
    west = {"labels": '{cluster="west", limit="orders"}', "value": 20}
    asked = {".*": [east, west], "west": [west], "east|west": [east, west]}
    run_queries(
        tmp_path,
        series,
        [
            (shown(*where, cluster=chosen, **query), "20m", expected)
            for chosen, expected in asked.items()
        ],
    )


def test_a_changed_limit_is_marked_once_with_what_it_is_now(tmp_path: Path) -> None:
    of = 'limit="orders", instance="x", job="exporter"'
    series = {
        f'dispatcher_cluster_capacity{{{of}, kind="max"}}': "400+0x9 500+0x20",
        f'dispatcher_cluster_capacity{{{of}, kind="shared"}}': "400+0x9 400+10x10 500+0x10",
        f"dispatcher_cluster_period_seconds{{{of}}}": "1+0x14 2+0x15",
        f"dispatcher_cluster_lease_seconds{{{of}}}": "2+0x14 0.5+0x15",
        f"dispatcher_cluster_partition_cost{{{of}}}": "4+0x30",
        # One that is seen for the first time has not changed.
        'dispatcher_cluster_capacity{limit="new", kind="max"}': "_x10 70+0x20",
    }
    expression = shown(
        "dispatcher-overview: Changed limits", cluster=".*", limit=".*", __interval="1m"
    )

    def changed(what: str, to: str) -> dict[str, object]:
        return {"labels": f'{{limit="orders", what="{what}", to="{to}"}}', "value": 1}

    asked: dict[int, list[dict[str, object]]] = {
        minute: [] for minute in (1, 9, 11, 12, 14, 16, 25)
    } | {
        10: [changed("capacity", "500")],
        15: [changed("period in seconds", "2"), changed("lease time in seconds", "0.5")],
    }
    run_queries(
        tmp_path,
        series,
        [(expression, f"{minute}m", expected) for minute, expected in asked.items()],
    )


def test_a_cluster_that_is_no_longer_watched_is_missed_and_its_alert_names_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "rules.yml").write_text(rules.text())
    series = {
        'dispatcher_exporter_read_seconds{cluster="here", instance="x", job="e"}': "0+0x60",
        'dispatcher_exporter_read_seconds{cluster="a & b", instance="y", job="e"}': "0+0x9 stale",
    }
    [alert] = [one for one in ALERTS if one.name == "DispatcherUnwatched"]
    [rule] = [one for one in rules.rules()["groups"][1]["rules"] if one["alert"] == alert.name]
    annotations = rule["annotations"] | {
        "summary": "No exporter of cluster a & b is scraped: no other alert about the cluster "
        "can fire",
        "dashboard": leads_to(alert, cluster="a & b"),
    }
    assert "a+%26+b" in annotations["dashboard"]
    fires = {"exp_labels": rule["labels"] | {"cluster": "a & b"}, "exp_annotations": annotations}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": told} for name, told in series.items()],
        "alert_rule_test": [
            {"eval_time": time, "alertname": alert.name, "exp_alerts": alerts}
            for time, alerts in (("12m", []), ("20m", [fires]))
        ],
    }
    (tmp_path / "asked.yml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [test]})
    )
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "asked.yml"))


def run_queries(
    directory: Path, series: dict[str, str], asked: list[tuple[str, str, list[dict[str, object]]]]
) -> None:
    """Each query at a time, and what it has to answer."""
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": told} for name, told in series.items()],
        "promql_expr_test": [
            {"expr": expression, "eval_time": time, "exp_samples": expected}
            for expression, time, expected in asked
        ],
    }
    (directory / "asked.yml").write_text(yaml.safe_dump({"tests": [test]}))
    assert "SUCCESS" in promtool("test", "rules", str(directory / "asked.yml"))


def test_promtool_finds_nothing_in_the_settings_that_are_checked_in() -> None:
    said = promtool("check", "config", "--lint=all", "--lint-fatal", str(HERE / "prometheus.yml"))
    assert "1 rule files found" in said
