"""`dispatcher demo`, or what to install for it."""

from __future__ import annotations

from dispatcher.cli._commands.demo.options import DemoOptions
from dispatcher.cli._options.parser import Invocation
from limiters.errors import DispatcherError


def run(options: DemoOptions, call: Invocation) -> None:
    """Runs both halves, and draws the comparison."""
    try:
        from dispatcher.cli._commands.demo import halves
    except ImportError:
        raise DispatcherError(
            "the demo draws with rich: pip install 'batch-dispatcher[cli,redis,embedded]'"
        ) from None
    halves.run(capacity=options.capacity, seconds=options.seconds, report=options.report)
