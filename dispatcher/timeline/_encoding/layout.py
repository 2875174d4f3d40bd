"""Names of a topic's keys: one hash tag for each bucket, so that a cluster distributes the
buckets."""

from __future__ import annotations

from urllib.parse import quote

FORMAT = "v1"
"""Version of the stored format, in every key: programs of another format never read these keys."""

PARTS = ("waiting", "leased", "messages", "states", "held", "dead", "deleted", "meta")
"""The keys of a bucket; bucket.lua describes their content."""


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
        """The keys of a bucket, in the order of PARTS."""
        keys = self._keys.get(bucket)
        if keys is None:
            tag = f"{self._start}/{bucket}}}"
            keys = self._keys[bucket] = tuple(f"{tag}:{part}".encode() for part in PARTS)
        return keys

    def some(self, buckets: list[int], *parts: str) -> list[bytes]:
        """The given parts of each bucket."""
        places = [PARTS.index(part) for part in parts]
        return [self.keys(bucket)[place] for bucket in buckets for place in places]
