"""A Redis Cluster of three masters."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from redis import Redis

from limiters.embedded import HOST, EmbeddedRedis
from tests.waiting import until

_SLOTS = 16_384


class ClusterRedis:
    """A context manager: in its block all nodes serve, and all slots are served.

    It takes two seconds: for so long a node that has just been started trusts no news.
    """

    def __init__(self, *, node_timeout_ms: int = 5_000) -> None:
        lines = ["cluster-enabled yes", f"cluster-node-timeout {node_timeout_ms}"]
        self.nodes = [EmbeddedRedis(config=lines) for _ in range(3)]
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            for number, node in enumerate(self.nodes):
                closing.enter_context(node)
                _ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                _ask(node, "CLUSTER", "ADDSLOTS", *self._slots(number))
            for one in self.nodes:
                for other in self.nodes:
                    if one is not other:
                        _ask(one, "CLUSTER", "MEET", HOST, other.port)
            until(self.serves)
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    @property
    def url(self) -> str:
        """One of the nodes; a client finds the others through it."""
        return self.nodes[0].url

    def owner(self, key: str) -> EmbeddedRedis:
        """The node that was given the slot of `key`."""
        slot = _ask(self.nodes[0], "CLUSTER", "KEYSLOT", key)
        return next(node for number, node in enumerate(self.nodes) if slot in self._slots(number))

    def serves(self) -> bool:
        """Whether every node reports that every slot is served."""
        return all(
            f"cluster_state:ok\r\ncluster_slots_assigned:{_SLOTS}\r\n"
            in _ask(node, "CLUSTER", "INFO")
            and _ask(node, "CLUSTER", "NODES").count(" connected") == len(self.nodes)
            for node in self.nodes
        )

    def _slots(self, number: int) -> range:
        bounds = [_SLOTS * part // len(self.nodes) for part in (number, number + 1)]
        return range(*bounds)


def _ask(node: EmbeddedRedis, *words: str | int) -> Any:
    with Redis(port=node.port, decode_responses=True) as client:
        client.response_callbacks.clear()  # the replies as they come
        return client.execute_command(*words)
