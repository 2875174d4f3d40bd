"""The commands of grafana/compose.yaml are right, as far as that is seen without containers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import yaml

from grafana.files import HERE
from limiters.embedded import EmbeddedRedis
from tests.processes import ROOT

SERVICES = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]
ENDING = {
    "producer": ["--seconds=0.2"],
    "exporter": ["--once"],
    "worker-1": ["--check"],
    "worker-2": ["--check"],
}
"""Options with which each program ends by itself."""
SAYS = {
    "producer": "done: ",
    "exporter": "dispatcher_redis_up 1.0",
    "worker-1": "examples.watched.handlers:send",
    "worker-2": "examples.watched.handlers:send",
}


def command_of(service: Any) -> list[str]:
    program = service.get("entrypoint", ["dispatcher"])
    here = {"dispatcher": ["-m", "dispatcher.cli.main"], "python": []}
    return [sys.executable, *here[program[0]], *program[1:], *service["command"]]


@pytest.mark.parametrize("name", [name for name in SERVICES if "build" in SERVICES[name]])
def test_a_service_starts_with_the_options_it_is_given(name: str) -> None:
    service = SERVICES[name]
    with EmbeddedRedis() as redis:
        stored = service["environment"]["DISPATCHER_REDIS"]
        assert stored == "redis://redis:6379/0"  # the service's name
        done = subprocess.run(
            [*command_of(service), *ENDING[name]],
            cwd=ROOT,
            env=os.environ | {"DISPATCHER_REDIS": redis.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert SAYS[name] in done.stdout
