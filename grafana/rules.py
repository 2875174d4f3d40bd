"""The rules as the file that Prometheus reads."""

from __future__ import annotations

from typing import Any

import yaml

from grafana.alerts import ALERTS, RECORDS, Alert
from grafana.pace import Pace
from grafana.places import address
from grafana.questions import Link

RUNBOOK = "docs/dashboards.md"

HEAD = "# Made by `make dashboards` from grafana/alerts.py: change that, not this.\n"


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def rules(pace: Pace | None = None) -> dict[str, Any]:
    """Return all rules; those for tests have another pace."""
    pace = pace or Pace()
    records = [{"record": one.name, "expr": one.expression(pace)} for one in RECORDS]
    return {
        "groups": [
            {"name": "dispatcher-records", "rules": records},
            {"name": "dispatcher-alerts", "rules": [_alert(one, pace) for one in ALERTS]},
        ]
    }


def text(pace: Pace | None = None) -> str:
    """Return the rules as YAML."""
    written = yaml.dump(rules(pace), Dumper=_Dumper, sort_keys=False, width=96, allow_unicode=True)
    return HEAD + written


def anchor(alert: Alert) -> str:
    """Return the heading in the document that explains what to do.

    >>> anchor(ALERTS[0])
    'dispatcherredisaway'
    """
    return alert.name.lower()


def dashboard(alert: Alert) -> str:
    """Return the path in Grafana of the panel that explains it.

    >>> dashboard(ALERTS[0])
    '/d/dispatcher-overview?var-cluster={{ $labels.cluster | urlquery }}&viewPanel=16'
    """
    if alert.seen_of_batcher is None:
        return _address(alert.seen)
    own = _address(alert.seen_of_batcher)
    return f"{{{{ if $labels.batcher }}}}{own}{{{{ else }}}}{_address(alert.seen)}{{{{ end }}}}"


def _address(link: Link) -> str:
    return address(link, lambda label: f"{{{{ $labels.{label} | urlquery }}}}")


def _alert(alert: Alert, pace: Pace) -> dict[str, Any]:
    rule: dict[str, Any] = {"alert": alert.name, "expr": alert.expression(pace)}
    if alert.hold:
        rule["for"] = pace.hold(alert.hold)
    rule["labels"] = {"severity": alert.severity}
    rule["annotations"] = {
        "summary": alert.summary,
        "description": alert.what_to_do,
        "dashboard": dashboard(alert),
        "runbook": f"{RUNBOOK}#{anchor(alert)}",
    }
    return rule
