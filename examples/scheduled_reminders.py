"""Reminders that are due within two seconds, two worker processes, one store with a limit.

The workers are what `dispatcher worker` starts anywhere: a systemd unit, a Kubernetes deployment.
Its supervisor drains them, however far each of them has come.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from dispatcher.timeline import Message, Timeline  # noqa: E402
from examples.reminders.store import MeteredStore  # noqa: E402
from limiters.embedded import EmbeddedRedis  # noqa: E402

REMINDERS, BAD = 1_000, 3
WORKER = ["-m", "dispatcher.cli.main", "worker", "--config", "examples/reminders/worker.toml"]


def main() -> None:
    """Creates reminders, and waits until the workers have sent them."""
    with EmbeddedRedis() as server, MeteredStore(capacity=500) as store:
        timeline = Timeline(server.url, "reminders")
        producer = timeline.producer("signup")
        producer.create(
            [
                Message({"to": f"user-{n}@example.org"}, delay=2 * n / REMINDERS, id=f"user-{n}")
                for n in range(REMINDERS)
            ]
        )
        producer.create([Message({"to": "nobody"}) for _ in range(BAD)])
        environment = {**os.environ, "DISPATCHER_REDIS": server.url, "STORE": store.url}
        workers = subprocess.Popen(
            [sys.executable, *WORKER, "--processes", "2", "--log-level", "ERROR"],
            cwd=ROOT,
            env=environment,
        )
        while timeline.stats().remaining:
            time.sleep(0.05)
        workers.send_signal(signal.SIGTERM)
        code = workers.wait()
        dead, _ = timeline.dead()
        print(f"sent: {timeline.stats().deleted}, refused with 429: {store.refused}")
        print(f"dead: {len(dead)}, since: {dead[0].reason}; exit code {code}")
        assert code == 0
        assert len(dead) == BAD
        print("done")


if __name__ == "__main__":
    main()
