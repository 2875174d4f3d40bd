"""`dispatcher timeline`: the actions on a topic."""

from __future__ import annotations

from typing import Any

from dispatcher.cli._commands.timeline import changes, create, histogram, peek, stats


def add_command(commands: Any) -> None:
    """Adds `timeline` to the commands."""
    timeline = commands.add_parser(
        "timeline",
        help="see and change the messages of a topic",
        description="A topic of messages that are due at a time, kept in Redis.",
        epilog="example:\n  dispatcher timeline stats mails --redis redis://db:6379/0",
    )
    actions = timeline.add_subparsers(title="actions", metavar="ACTION")
    stats.add_command(actions)
    peek.add_commands(actions)
    histogram.add_command(actions)
    create.add_command(actions)
    changes.add_commands(actions)
