"""HTTP ingest: two instances of a service take records and write them to one datastore with a
limit. Each request has its own Watcher. A request for which the buffer has no room is refused as a
whole (429), and so is one that comes while an instance stops (503); accepted records (202) are
written first, here after SIGTERM."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tenacity import wait_random_exponential

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    BufferFullError,
    Operation,
    Throttled,
    Watcher,
)
from limiters import RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.reminders.handlers import post
from examples.reminders.store import MeteredStore

LIMIT, COST = 2_000, 10


def write(batch: list[Operation]) -> None:
    """Write some records of one request."""
    status = post([one.payload for one in batch], cost=sum(one.cost for one in batch))
    if status == 429:
        raise Throttled(retry_after=0.5)
    if status != 201:
        raise ConnectionError(f"the store answered {status}")


def serve(redis: str) -> None:
    """Run one instance, until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # for threads that start later, too
    leases = RedisLeaseManager(redis, name="store", lease_time=1)
    limiter = SharedResource(
        shared_capacity=LIMIT, factor=100, lease_manager=leases, max_interval=0.25
    )
    batcher = Batcher(rate_limiter=limiter, max_buffer_size=200, error_on_full_buffer=True)

    class Ingest(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            records = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            watcher = Watcher(write, max_batch_size=20, retry=wait_random_exponential(max=2))
            try:
                batcher.enqueue_many(
                    [Operation(watcher, COST, it, batchable=True) for it in records]
                )
                self.send_response(202)
            except BufferFullError:
                self.send_response(429)
            except BatcherStoppedError:
                self.send_response(503)
            self.end_headers()

        def log_message(self, *said: object) -> None:
            """Print nothing: requests are not logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Ingest) as server, batcher:
        threading.Thread(target=server.serve_forever).start()
        print(server.server_port, flush=True)
        signal.sigwait({signal.SIGTERM})
        batcher.stop()  # from now on it answers 503, and writes what it has
        server.shutdown()


def ingest(ports: list[int], records: list[int]) -> Counter[int]:
    """Send records in pieces, and repeat each until it is accepted. Return the answers."""
    answers: Counter[int] = Counter()
    for start in range(0, len(records), 50):
        status = 0
        while status != 202:
            try:
                line = http.client.HTTPConnection("127.0.0.1", ports[0])
                line.request("POST", "/", json.dumps(records[start : start + 50]))
                status = line.getresponse().status
            except OSError:  # that instance has ended
                status = 503
            answers[status] += 1
            if status == 429:
                time.sleep(0.25)
            elif status == 503:
                ports = ports[1:]
    return answers


def main() -> None:
    """Start two instances, send each a job, and stop the first one in the middle."""
    with EmbeddedRedis() as redis, MeteredStore(capacity=1.25 * LIMIT) as store:
        command = [sys.executable, __file__, redis.url]
        environment = {**os.environ, "STORE": store.url}
        instances = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(2)
        ]
        first, second = (int(one.stdout.readline()) for one in instances if one.stdout)
        with ThreadPoolExecutor() as pool:
            jobs = [
                pool.submit(ingest, [first, second], list(range(300))),
                pool.submit(ingest, [second], list(range(300, 600))),
            ]
            while not store.log:
                time.sleep(0.01)
            instances[0].terminate()
            answers = jobs[0].result() + jobs[1].result()
        instances[1].terminate()
        codes = [one.wait() for one in instances]
        written = [record for _, _, status, body in store.log if status == 201 for record in body]
    print(f"answers to clients: {dict(answers)}; refused by the store with 429: {store.refused}")
    assert sorted(written) == list(range(600)), "each record once"
    print(f"done: {len(written)} written, exit codes {codes}")


if __name__ == "__main__":
    serve(sys.argv[1]) if len(sys.argv) > 1 else main()
