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

import pytest
import yaml

from grafana import rules
from grafana.alerts import ALERTS, RECORDS
from grafana.files import HERE
from grafana.pace import Pace
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
    ("CapacityIdle", "hoarded"),
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
"""What is wrong in the example: the alert that is for it, and what that is about."""
SURE = {"RedisAway", "Throttled", "DeadLetters", "ClockDrift", "SparkRowsRejected"}
"""These are never about anything else, however slow the machine; the others tell of that, too."""
BUSY = {("BufferNearlyFull", "refused"), ("LimitNearlyUsed", "refused")}
"""And this is so once nothing is refused any more."""


def substituted(expression: str, example: Example) -> str:
    """With the variables of a dashboard as somebody might choose them."""
    several = re.sub(r'=~"\$\w+"', '=~".*"', expression)
    chosen = {
        "limit": "orders",
        "topic": "mails",
        "instance": example.good[0].place,
        "__rate_interval": "5s",
        "__range": "1m",
    }
    return re.sub(r"\$(\w+)", lambda found: chosen[found[1]], several)


def panels() -> Iterator[tuple[str, str]]:
    """Each query of each panel, and where it stands."""
    for path in sorted((HERE / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']}", target["expr"]


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

        # Nobody watches yet.
        until(lambda: ("Unwatched", "") in seen, within=PATIENCE)
        until(example.is_known)
        example.watch()
        until(lambda: prometheus.now('dispatcher_cluster_demand{limit="far"} > 0'))
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

        asked = [(where, substituted(expression, example)) for where, expression in panels()]
        asked += [(record.name, record.name) for record in RECORDS]
        silent = [
            (where, expression)
            for where, expression in asked
            if all(math.isnan(value) for value in prometheus.values(expression))
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
    told = {
        rule["alert"]: {
            "exp_labels": rule["labels"] | labels,
            "exp_annotations": rule["annotations"] | {"summary": expected[rule["alert"]]},
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
    asked = dict(panels())["dispatcher-spark: How large are batches?"]
    expression = asked.replace("$__rate_interval", "5m").replace("$query", ".*")
    # A micro-batch that is run again has all of its rows, and few of them are sent.
    series = {
        'dispatcher_spark_rows_total{query="clicks", outcome="replayed"}': 860,
        'dispatcher_spark_rows_total{query="clicks", outcome="sent"}': 140,
        'dispatcher_spark_input_rows_total{query="clicks"}': 1_000,
        'dispatcher_spark_batches_total{query="clicks"}': 2,
    }
    test = {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": f"0+{more}x30"} for name, more in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": "20m",
                "exp_samples": [{"labels": '{query="clicks"}', "value": 70}],
            }
        ],
    }
    (tmp_path / "asked.yml").write_text(yaml.safe_dump({"tests": [test]}))
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "asked.yml"))


def test_single_requests_that_are_lost_call_nobody_and_an_instance_that_is_cut_off_does(
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
        all_ % "slow": "0+300x60",  # the others, whom nobody scrapes, tell it later
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
                "exp_annotations": rule["annotations"] | {"summary": summary},
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


def test_promtool_finds_nothing_in_the_settings_that_are_checked_in() -> None:
    said = promtool("check", "config", "--lint=all", "--lint-fatal", str(HERE / "prometheus.yml"))
    assert "1 rule files found" in said
