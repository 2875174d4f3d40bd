"""The options of `dispatcher exporter`."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.cli._options.checks import port
from dispatcher.cli._options.declaring import Command, flag, option
from dispatcher.cli._options.logs import LogOptions
from dispatcher.cli._options.redis import RedisOptions

PORT = 9890
LOOPBACK = "127.0.0.1"


def names(text: str) -> tuple[str, ...]:
    """Split names at commas."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


@dataclass(frozen=True, kw_only=True)
class ExporterOptions(LogOptions, RedisOptions):
    """The limits and topics to export, and the address."""

    port: int = option("where to serve; 0: any", "PORT", PORT, check=port)
    addr: str = option(
        "who may scrape; 127.0.0.1 is this machine only, 0.0.0.0 all", "ADDRESS", LOOPBACK
    )
    limits: tuple[str, ...] = option(
        "these limits only; if neither these nor topics are named: all of both that there are",
        "NAME,...",
        (),
        read=names,
    )
    topics: tuple[str, ...] = option("these topics only", "NAME,...", (), read=names)
    sums_only: bool = flag("do not show each instance by its host and process")
    once: bool = flag("print the metrics once, and exit")


EXPORTER = Command(
    description="Reads the state of all instances from Redis, whenever Prometheus scrapes: "
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
    options=ExporterOptions,
    run="dispatcher.cli._commands.exporter.command:run",
)
