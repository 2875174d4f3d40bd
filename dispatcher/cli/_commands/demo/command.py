"""`dispatcher demo`, or what to install for it."""

from __future__ import annotations

from dispatcher.cli._commands.demo.options import DemoOptions
from dispatcher.cli._options.parser import Invocation
from limiters.errors import DispatcherError


def run(options: DemoOptions, call: Invocation) -> None:
    """Run all three ways, and print the comparison."""
    try:
        from dispatcher.cli._commands.demo import race
    except ImportError:
        raise DispatcherError(
            "the demo draws with rich: pip install 'batch-dispatcher[cli,redis,embedded]'"
        ) from None
    race.run(capacity=options.capacity, seconds=options.seconds, report=options.report)
