"""The commands that a user of Redis must be allowed: each kind of use declares its `Needs`, once.

Errors show them, and a test compares them with the scripts and with the documents.
"""

from __future__ import annotations

from dataclasses import dataclass

CONNECTION = "+auth +client +hello +ping +select"
"""Commands that redis-py sends by itself: CLIENT SETINFO on each new connection, SELECT for any
database but 0."""

CLUSTER = "+cluster|slots +command"
"""Commands by which a client finds the nodes of a cluster."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The commands and channels that one kind of use needs.

    >>> Needs("+evalsha +eval").rules("shop")
    '~shop:* +evalsha +eval +auth +client +hello +ping +select'
    """

    commands: str
    """The commands as an ACL writes them, separated by spaces."""
    channels: bool = False
    """Whether it publishes, or subscribes."""

    def rules(self, prefix: str, *, cluster: bool = False) -> str:
        """Return the rules of an ACL for a user whose keys begin with `prefix`."""
        places = f"~{prefix}:* &{prefix}:*" if self.channels else f"~{prefix}:*"
        return " ".join((places, self.commands, CONNECTION, *((CLUSTER,) if cluster else ())))
