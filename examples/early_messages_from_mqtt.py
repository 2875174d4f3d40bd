"""Devices on an MQTT broker whose messages come in the wrong order: a message that arrives before
the registration of its device waits for it, live and after a restart.

    python examples/early_messages_from_mqtt.py [HOST:PORT]

It needs the package paho-mqtt. Without a named broker, it starts mosquitto, which Debian's package
of that name installs. The topics:

    te/device/child1//                       registration, retained: {"@parent": ...}
    te/device/child1///twin/hardware_info    metadata, retained
    te/device/child1///m/temperature         telemetry
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

try:
    from paho.mqtt.client import Client, MQTTMessage
    from paho.mqtt.enums import CallbackAPIVersion
except ImportError:
    sys.exit("this example needs paho-mqtt 2 or later: pip install 'paho-mqtt>=2'")

from dispatcher import Batcher, Operation, Watcher
from dispatcher.registration import EarlyMessageLog, RegistrationGate, SqliteEntityStore
from dispatcher.senders import GatedSender

REGISTRATIONS = "te/+/+/+/+"
TWINS = "te/+/+/+/+/twin/+"
TELEMETRY = "te/+/+/+/+/m/+"

Line = tuple[str, str]
"""An entity, and "registered" or the topic and body of its message."""


class Mapper:
    """Subscribes to the broker, passes messages through the gate, and writes those that are
    released."""

    def __init__(self, host: str, port: int, directory: str) -> None:
        self.lines: list[Line] = []
        self.changed = threading.Condition()
        log = EarlyMessageLog(f"{directory}/early", max_bytes=1_000_000, max_age=3600)
        self.gate = RegistrationGate(SqliteEntityStore(f"{directory}/entities.db"), early_log=log)
        self.batcher = Batcher(flush_interval=0.01)
        self.sender = GatedSender(self.gate, self.batcher, Watcher(self.write))
        self.client = connected(host, port)
        self.client.on_message = self.on_message
        self.came = 0

    def on_message(self, client: Client, user: Any, message: MQTTMessage) -> None:
        """Runs on the client's thread, one message after the other."""
        _, *entity, kind, name = [*message.topic.split("/"), "", ""][:7]
        who, body = "/".join(entity), message.payload.decode()
        if kind:
            self.sender.offer(who, (f"{kind}/{name}", body), metadata=kind == "twin")
        else:
            data = json.loads(body)
            self.sender.register(who, parent=data.pop("@parent", None), data=data)
        with self.changed:
            self.came += 1
            self.changed.notify_all()

    def write(self, batch: list[Operation]) -> None:
        """Stands for the cloud's API."""
        release = batch[0].payload
        words = "registered" if release.registration else " ".join(release.messages[0])
        with self.changed:
            self.lines.append((release.entity, words))
            print(f"  {release.entity:<20} {words}")
            self.changed.notify_all()

    def wait(self, *, came: int | None = None, lines: int | None = None) -> None:
        """Wait until this many messages have come in, or lines have gone out."""
        with self.changed:
            assert self.changed.wait_for(
                lambda: (
                    (came is None or self.came >= came)
                    and (lines is None or len(self.lines) >= lines)
                ),
                timeout=30,
            ), f"{self.came} came, {self.lines} went out"

    def __enter__(self) -> "Mapper":
        self.batcher.start()
        self.sender.start()
        self.client.loop_start()
        return self

    def __exit__(self, *error: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()
        self.sender.stop()
        self.batcher.stop()
        self.gate.close()


def main(broker: str | None) -> None:
    """Run live, then after a restart."""
    if broker and not re.fullmatch(r".+:[0-9]+", broker):
        sys.exit(f"a broker is named by HOST:PORT, not {broker!r}")
    with ExitStack() as closing:
        directory = closing.enter_context(tempfile.TemporaryDirectory())
        place = broker or closing.enter_context(own_broker(directory))
        host, _, port = place.rpartition(":")
        # A named broker runs already; only the example's own needs time to start.
        device = connected(host, int(port), patience=0 if broker else 30)
        device.loop_start()
        closing.callback(device.loop_stop)
        closing.callback(device.disconnect)

        def publish(topic: str, body: object, *, retain: bool) -> None:
            device.publish(f"te/{topic}", json.dumps(body), qos=1, retain=retain).wait_for_publish(
                30
            )

        print("live: telemetry and twins first, children before their parents")
        with Mapper(host, int(port), directory) as mapper:
            subscribe(mapper.client, REGISTRATIONS, TWINS, TELEMETRY)
            publish("device/nested1///m/temperature", 21.5, retain=False)
            publish("device/nested1///twin/location", "hall 3", retain=True)
            publish("device/nested1///m/temperature", 21.6, retain=False)
            publish("device/nested1//", {"@parent": "device/child1//"}, retain=True)
            publish("floor1/plc1///twin/location", "floor 1", retain=True)
            publish("floor1/plc1///twin/hardware_info", "rev 7", retain=True)
            publish("floor1/plc1//", {"id": "desired-xid"}, retain=True)
            publish("device/child1///twin/location", "hall 3", retain=True)
            publish("device/child1//", {}, retain=True)
            mapper.wait(lines=9)
            first = mapper.lines
        assert of(first, "device/child1//") == ["registered", 'twin/location "hall 3"']
        assert of(first, "device/nested1//") == [
            "registered",
            *('twin/location "hall 3"', "m/temperature 21.5", "m/temperature 21.6"),
        ]
        assert of(first, "floor1/plc1//") == [
            "registered",
            *('twin/location "floor 1"', 'twin/hardware_info "rev 7"'),
        ]
        assert first.index(("device/child1//", "registered")) < first.index(
            ("device/nested1//", "registered")
        )

        print("while the gate is down: a new device, and one nested below it")
        publish("device/new//", {}, retain=True)
        publish("device/new///twin/location", "hall 4", retain=True)
        publish("device/deep//", {"@parent": "device/new//"}, retain=True)
        publish("device/deep///twin/location", "hall 4", retain=True)

        print("after a restart: twins and telemetry first, all registrations once more at the end")
        with Mapper(host, int(port), directory) as mapper:
            subscribe(mapper.client, TWINS)
            mapper.wait(came=6)
            subscribe(mapper.client, TELEMETRY)
            publish("device/nested1///m/temperature", 21.7, retain=False)
            publish("device/deep///m/temperature", 4.0, retain=False)
            # Devices that were registered before send already; the others wait.
            mapper.wait(came=8, lines=5)
            assert {entity for entity, _ in mapper.lines} == {
                *("device/child1//", "device/nested1//", "floor1/plc1//")
            }
            subscribe(mapper.client, REGISTRATIONS)
            mapper.wait(came=13, lines=10)
            second = mapper.lines
        assert of(second, "device/new//") == ["registered", 'twin/location "hall 4"']
        assert of(second, "device/deep//") == [
            *("registered", 'twin/location "hall 4"', "m/temperature 4.0")
        ]
        # Registrations that are stored already are not emitted again.
        assert [entity for entity, words in second if words == "registered"] == [
            *("device/new//", "device/deep//")
        ]
        counts = mapper.gate.counts
        assert sum(counts["dropped"]) == sum(counts["displaced"]) == 0
        print("done: nothing was dropped, and all of it in order")


def of(lines: list[Line], entity: str) -> list[str]:
    """Return the lines of one entity."""
    return [words for one, words in lines if one == entity]


def subscribe(client: Client, *topics: str) -> None:
    """Subscribe, and return when the broker has confirmed it."""
    confirmed = threading.Event()
    client.on_subscribe = lambda *told: confirmed.set()
    client.subscribe([(topic, 1) for topic in topics])
    assert confirmed.wait(30), "the broker does not answer"


def connected(host: str, port: int, patience: float = 0) -> Client:
    """Connect to a broker, which may need `patience` seconds to start."""
    client = Client(CallbackAPIVersion.VERSION2)
    deadline = time.monotonic() + patience
    while True:
        try:
            client.connect(host, port)
            return client
        except OSError as error:
            if time.monotonic() >= deadline:
                sys.exit(f"no MQTT broker answers at {host}:{port}: {error.strerror or error}")
            time.sleep(0.05)


@contextmanager
def own_broker(directory: str) -> Iterator[str]:
    """Start a broker on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    mosquitto = shutil.which("mosquitto", path=path)
    if mosquitto is None:
        sys.exit(
            "mosquitto was not found; install it (apt-get install mosquitto), "
            "or name a broker that runs: HOST:PORT"
        )
    config = Path(directory) / "broker.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    command = [mosquitto, "-c", str(config)]
    with (Path(directory) / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        print("broker: mosquitto")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
