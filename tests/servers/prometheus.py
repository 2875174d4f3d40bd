"""A real Prometheus, and promtool."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import yaml

from limiters._support.tethered import Tethered
from limiters.embedded import HOST
from tests.servers.ports import own_port
from tests.waiting import until


def promtool(*arguments: str, given: str = "") -> str:
    """Its output, findings included; it fails if promtool does."""
    done = subprocess.run(
        ["promtool", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Prometheus:
    """A context manager. It scrapes each of `jobs` as often as `interval` says."""

    def __init__(
        self,
        directory: Path,
        jobs: Mapping[str, Sequence[str]],
        rules: str,
        *,
        interval: str = "1s",
    ) -> None:
        self._directory = directory / "prometheus"
        self._directory.mkdir()
        self._log = directory / "prometheus.log"
        (self._directory / "rules.yml").write_text(rules)
        settings = {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "rule_files": ["rules.yml"],
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": list(targets)}]}
                for name, targets in jobs.items()
            ],
        }
        self.settings = self._directory / "prometheus.yml"
        self.settings.write_text(yaml.safe_dump(settings))
        self._port = own_port()

    def __enter__(self) -> Self:
        self.began = time.time()
        command = [
            "prometheus",
            f"--config.file={self.settings}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={HOST}:{self._port}",
            "--log.level=warn",
        ]
        self._process = Tethered(command, self._directory, self._log)
        try:
            until(self._is_ready)
        except BaseException:
            self._process.end()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._process.end()

    def firing(self) -> list[dict[str, str]]:
        """The labels of the alerts that are firing now."""
        return [one["labels"] for one in self.alerts() if one["state"] == "firing"]

    def alerts(self) -> list[dict[str, Any]]:
        """All that are pending or firing."""
        return list(self._ask("alerts")["alerts"])

    def now(self, expression: str) -> list[dict[str, Any]]:
        """The answer of Prometheus to this."""
        return list(self._ask("query", query=expression)["result"])

    def values(self, expression: str) -> list[float]:
        """All that it was since the start, of all series."""
        span = {"start": f"{self.began:.3f}", "end": f"{time.time():.3f}", "step": "1"}
        result = self._ask("query_range", query=expression, **span)["result"]
        return [float(value) for series in result for _, value in series["values"]]

    def _is_ready(self) -> bool:
        assert self._process.running, self._log.read_text()
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _ask(self, what: str, **parameters: str) -> Any:
        url = f"http://{HOST}:{self._port}/api/v1/{what}?{urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
