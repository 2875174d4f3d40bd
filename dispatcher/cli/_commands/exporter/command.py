"""`dispatcher exporter`: serve the metrics of the whole cluster, read from Redis alone."""

from __future__ import annotations

import logging
import signal
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from dispatcher.cli._commands.connecting import URL_OPTION, naming_another
from dispatcher.cli._commands.exporter.options import ExporterOptions
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal import log_lines
from dispatcher.cli._text.showable import showable
from limiters._support.latch import Latch
from limiters._support.validation import named
from limiters.errors import LeaseManagerError

if TYPE_CHECKING:
    from dispatcher.metrics._cluster.cluster import ClusterCollector

_log = logging.getLogger("dispatcher.exporter")


def run(options: ExporterOptions, call: Invocation) -> None:
    """Serve the metrics, or print them once."""
    from dispatcher.metrics._cluster.cluster import ClusterCollector

    log_lines.set_up(
        options.log_format,
        "WARNING" if options.once else "INFO",
        without="redis-away" if options.once else "",  # a signal is the normal end
    )
    with named(URL_OPTION):
        collector = ClusterCollector(
            options.redis,
            prefix=options.prefix,
            limits=options.limits,
            topics=options.topics,
            members=not options.sums_only,
        )
    with closing(collector):
        if options.once:
            _print(options, collector)
        else:
            _serve(collector, options.port, options.addr)


def _print(options: ExporterOptions, collector: ClusterCollector) -> None:
    from dispatcher.metrics._exposition import text_of

    readings = collector.read(budget=float("inf"))
    if collector.trouble:
        raise naming_another(options, LeaseManagerError(collector.trouble))
    sys.stdout.write(showable(text_of(readings)))


def _serve(collector: ClusterCollector, port: int, addr: str) -> None:
    from dispatcher.metrics._exposition import registry_of
    from dispatcher.metrics.serving import serve

    ended = Latch()
    before = signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    try:
        with serve(port, addr, registry_of(collector)) as server:
            facts = {"happening": "serving", "url": server.url, "where": collector.where}
            _log.info("serving %s, from Redis at %s", server.url, collector.where, extra=facts)
            collector.read()  # so that it is in the log immediately if Redis is away
            ended.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
    _log.info("ended", extra={"happening": "ended"})
