"""`dispatcher exporter`: shows the whole cluster to Prometheus, from Redis alone."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from dispatcher.cli._options.options import URL_OPTION, add_option, add_redis, printable
from dispatcher.errors import DispatcherError
from limiters._support.latch import Latch
from limiters._support.validation import named

if TYPE_CHECKING:
    from dispatcher.metrics._cluster.cluster import ClusterCollector

PORT = 9890
LOOPBACK = "127.0.0.1"

_log = logging.getLogger("dispatcher.exporter")


def add_command(commands: Any) -> None:
    """Adds `exporter` to the commands."""
    parser = commands.add_parser(
        "exporter",
        help="show the whole cluster to Prometheus, from Redis alone",
        description="Reads what all instances have told Redis, whenever Prometheus scrapes: "
        "capacity, partitions, demand\nand spend of each limit, what became of operations and "
        "batches, and the backlog of each topic of the\nTimeline. One is enough; more do no "
        "harm. While Redis is away dispatcher_redis_up is 0.",
        epilog="examples:\n"
        "  dispatcher exporter --redis redis://db:6379/0 --addr 0.0.0.0\n"
        "  dispatcher exporter --limits orders,invoices --topics mails\n"
        "  dispatcher exporter --once | grep cluster_capacity\n\n"
        "in prometheus.yml:\n"
        "  scrape_configs:\n"
        f"    - {{job_name: dispatcher, static_configs: [{{targets: ['localhost:{PORT}']}}]}}",
    )
    add_redis(parser)
    add_option(
        parser, "--port", _port, metavar="PORT", text=f"where to serve, {PORT} if not said, 0: any"
    )
    add_option(
        parser,
        "--addr",
        str,
        metavar="ADDRESS",
        text=f"who may scrape: {LOOPBACK}, which is only this machine, if not said; 0.0.0.0: all",
    )
    add_option(
        parser,
        "--limits",
        _names,
        metavar="NAME,...",
        text="these limits only; if neither these nor topics are named: all of both that there are",
    )
    add_option(parser, "--topics", _names, metavar="NAME,...", text="these topics only")
    parser.add_argument(
        "--sums-only",
        action="store_true",
        help="do not show each instance by its host and process",
    )
    parser.add_argument(
        "--once", action="store_true", help="print what a scrape would give, and end"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    # Here, not above: `dispatcher --help` needs neither Redis nor prometheus-client.
    from dispatcher.metrics._cluster.cluster import ClusterCollector

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with named(URL_OPTION):
        collector = ClusterCollector(
            options.redis,
            prefix=options.prefix,
            limits=options.limits or (),
            topics=options.topics or (),
            members=not options.sums_only,
        )
    with closing(collector):
        if options.once:
            _print(collector)
        else:
            port = PORT if options.port is None else options.port
            _serve(collector, port, options.addr or LOOPBACK)


def _print(collector: ClusterCollector) -> None:
    from dispatcher.metrics._exposition import text_of

    for line in text_of(collector.read(budget=float("inf"))).splitlines():
        sys.stdout.write(printable(line) + "\n")
    if not collector.up:
        raise DispatcherError(f"Redis at {collector.where} did not answer; see above")


def _serve(collector: ClusterCollector, port: int, addr: str) -> None:
    from dispatcher.metrics._exposition import registry_of
    from dispatcher.metrics.serving import serve

    ended = Latch()
    before = signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    try:
        with serve(port, addr, registry_of(collector)) as server:
            facts = {"happening": "serving", "url": server.url, "where": collector.where}
            _log.info(
                "serving %s, what Redis at %s knows", server.url, collector.where, extra=facts
            )
            collector.read()  # so that it is in the log at once if Redis is away
            ended.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
    _log.info("ended", extra={"happening": "ended"})


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError("not a whole number") from None
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError("a port is from 0 to 65535")
    return port


def _names(text: str) -> list[str]:
    return [name for name in (part.strip() for part in text.split(",")) if name]
