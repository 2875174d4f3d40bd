"""The URL of a Redis: it is refused with ArgumentError, or accepted; its secrets are shown neither
by the error, nor by the address, nor by a message that contains it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from limiters._redis.client import RedisConnection
from limiters._support.passwords import without_passwords
from limiters._support.validation import ArgumentError

SECRET = "s3cr3t"


def check(data: bytes) -> None:
    url = data.decode("utf-8", "surrogateescape")
    try:
        connection = RedisConnection(url, 1.0)
        if not connection.is_cluster:  # a client of a cluster connects immediately
            connection.client()
            connection.close()
        shown = connection.where
    except ArgumentError as error:
        shown = str(error)
    if _is_secret(url):
        assert SECRET not in shown
        assert SECRET not in without_passwords(url)
        has_space = any(map(str.isspace, url))  # then it is not clear where it ends in a message
        assert has_space or SECRET not in without_passwords(f"no such limit: {url}")


def _is_secret(url: str) -> bool:
    """Whether all of the secret is at a place for secrets."""
    scheme = re.match(r"[\w+.-]+://", url)
    rest = url[scheme.end() :] if scheme else ""
    place, _, _ = rest.partition("?")
    return url.count(SECRET) == rest.count(SECRET) == 1 and SECRET not in place.rpartition("@")[2]


def seeds() -> Iterator[bytes]:
    for url in (
        "redis://localhost:6379/0",
        f"rediss://user:{SECRET}@[::1]:6380/2?ssl_cert_reqs=none&socket_timeout=2",
        f"unix://:{SECRET}@/run/redis.sock?db=1",
        f"redis+sentinel://a:1,b:2/service/3?sentinel_password={SECRET}&protocol=3",
        f"redis+cluster://:{SECRET}@a:1,b:2",
        f"rediss+cluster://h?password={SECRET}&health_check_interval=5&max_connections=3",
        f"redis://:{SECRET}/@h?retry_on_timeout=yes",
    ):
        yield url.encode()
