"""The example with an MQTT broker: with mosquitto, and with a plain one."""

from __future__ import annotations

import subprocess
import sys

from tests.processes import ROOT
from tests.programs import needs
from tests.servers.mqtt import PlainBroker


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "examples/early_messages_from_mqtt.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@needs("mosquitto")
def test_r4_and_r6_the_seeds_topics_in_the_wrong_order_through_mosquitto() -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    assert "broker: mosquitto" in done.stdout
    assert "done: nothing was dropped, and all of it in order" in done.stdout


def test_r4_and_r6_the_seeds_topics_in_the_wrong_order_through_any_broker() -> None:
    with PlainBroker() as broker:
        done = run(broker.place)
    assert done.returncode == 0, done.stderr
    assert "done: nothing was dropped, and all of it in order" in done.stdout
