"""The example with an MQTT broker: with mosquitto, and with a plain one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.processes import ROOT
from tests.programs import needs
from tests.servers.mqtt import PlainBroker
from tests.servers.ports import own_port

EXAMPLE = "examples/early_messages_from_mqtt.py"
WITHOUT_PAHO = f"import runpy, sys; sys.modules['paho'] = None; runpy.run_path({EXAMPLE!r})"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return python(EXAMPLE, *arguments)


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
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


@pytest.mark.parametrize(
    ("broker", "said"),
    [
        ("127.0.0.1:PORT", "no MQTT broker answers at 127.0.0.1:"),
        ("localhost", "a broker is named by HOST:PORT, not 'localhost'"),
    ],
)
def test_a_broker_that_does_not_answer_is_named_immediately(broker: str, said: str) -> None:
    done = run(broker.replace("PORT", str(own_port())))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr


def test_without_its_client_the_example_says_what_to_install() -> None:
    done = python("-c", WITHOUT_PAHO)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "pip install 'paho-mqtt>=2'" in done.stderr


def test_r4_and_r6_the_seeds_topics_in_the_wrong_order_through_any_broker() -> None:
    with PlainBroker() as broker:
        done = run(broker.place)
    assert done.returncode == 0, done.stderr
    assert "done: nothing was dropped, and all of it in order" in done.stdout
