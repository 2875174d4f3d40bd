"""How a topic's keys are called: one hash tag for each bucket, so that a cluster spreads them."""

from __future__ import annotations

from urllib.parse import quote

FORMAT = "v1"
"""The version of what is stored, in every key: another format never reads this one's."""

PARTS = ("waiting", "leased", "messages", "states", "held", "dead", "deleted", "meta")
"""The keys of a bucket; bucket.lua says what is in them."""


class Layout:
    """The keys of one topic.

    >>> Layout("dispatcher", "mails").keys(3)[0]
    b'dispatcher:v1:{mails/3}:waiting'
    """

    def __init__(self, prefix: str, topic: str) -> None:
        self._start = f"{prefix}:{FORMAT}:{{{quote(topic, safe='')}"
        self.settings = f"{self._start}}}:settings".encode()
        self.members = f"{self._start}}}:consumers".encode()
        self.channel = f"{self._start}}}:wake".encode()
        self._keys: dict[int, tuple[bytes, ...]] = {}

    def keys(self, bucket: int) -> tuple[bytes, ...]:
        """Those of a bucket, in the order of PARTS."""
        keys = self._keys.get(bucket)
        if keys is None:
            tag = f"{self._start}/{bucket}}}"
            keys = self._keys[bucket] = tuple(f"{tag}:{part}".encode() for part in PARTS)
        return keys

    def some(self, buckets: list[int], *parts: str) -> list[bytes]:
        """These parts of each of the buckets."""
        places = [PARTS.index(part) for part in parts]
        return [self.keys(bucket)[place] for bucket in buckets for place in places]
