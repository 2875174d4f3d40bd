"""`dispatcher worker`: handle the due messages of a topic until a stop request."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

from dispatcher.cli._commands.missing import no_topic
from dispatcher.cli._commands.worker import check as worker_check
from dispatcher.cli._commands.worker import making
from dispatcher.cli._commands.worker import metrics_page as worker_metrics
from dispatcher.cli._commands.worker.options import WorkerCommandOptions
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal import log_lines
from limiters._support.validation import in_seconds

if TYPE_CHECKING:
    from dispatcher.worker import Worker


def run(options: WorkerCommandOptions, call: Invocation) -> None:
    """Work, or check the configuration."""
    if options.check:
        worker_check.run(options, call)
        return
    log_lines.set_up(options.log_format, options.log_level)
    from dispatcher.worker._process.supervisor import CHILD

    if options.processes > 1 and CHILD not in os.environ:
        _supervise(options, call)
    else:
        _work(options, os.environ.get(CHILD))


def _work(options: WorkerCommandOptions, number: str | None) -> None:
    from dispatcher.worker._process.process import NoTopicError, Signals, run, stop_with_parent
    from dispatcher.worker._process.systemd import Notifier

    signals = Signals()
    if number is not None:
        stop_with_parent(signals)
    port = options.metrics_port
    if port and number is not None:
        port += 1 + int(number)
    worker = making.worker_of(options, number)
    try:
        run(
            worker,
            signals,
            Notifier(),
            host=options.metrics_host,
            port=port,
            more_pages={} if port is None else {"/metrics": worker_metrics.page(worker)},
            fail_fast=options.fail_fast,
            create_topic=options.create_topic,
        )
    except NoTopicError as error:
        raise no_topic(error.where, error.topic, options) from None
    except BaseException:
        _end_what_runs(worker)
        raise


def _end_what_runs(worker: Worker) -> None:
    """Release the messages of a worker that has failed, so that other workers need not wait for its
    leases to end."""
    from dispatcher.worker import Life

    if worker.life is Life.RUNNING:
        worker.stop(0)


def _supervise(options: WorkerCommandOptions, call: Invocation) -> None:
    from dispatcher.worker._process.process import Signals
    from dispatcher.worker._process.supervisor import Supervisor
    from dispatcher.worker._process.systemd import Notifier

    if not hasattr(socket, "AF_UNIX"):
        raise ValueError(
            "--processes needs sockets of Unix, and this system has none: start as many workers"
        )
    if options.metrics_port == 0:
        raise ValueError(
            "--metrics-port 0, a free one, is for one process; with --processes name the first of "
            "those that follow each other: the supervisor's, then one for each process"
        )
    signals = Signals()
    ports = []
    if options.metrics_port is not None:
        ports = [options.metrics_port + 1 + it for it in range(options.processes)]
    # -P: as for one process, the working directory is put onto the path for the handler alone, and
    # a dispatcher.py that stands there does not take the place of this package.
    command = [sys.executable, "-P", "-m", "dispatcher.cli.main", *call.arguments]
    code = Supervisor(command, options.processes, ports).run(
        signals,
        Notifier(),
        host=options.metrics_host,
        port=options.metrics_port,
        drain_time=in_seconds(options.drain_time),
    )
    if code:
        raise SystemExit(code)
