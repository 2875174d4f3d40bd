"""From a URL, or a client that was handed in, to a client with bounded patience."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from limiters.errors import RedisNotInstalledError

if TYPE_CHECKING:
    from redis import Redis, RedisCluster

SCHEMES = (
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
)

DEFAULT_PORTS = {"cluster": 6379, "sentinel": 26379}


class Connection:
    """Where a Redis is, and a client for it that is made when it is first needed.

    Each step of a call (connecting, authenticating, asking) takes at most `timeout` seconds,
    and nothing is tried again: whoever asks knows best when that makes sense. In a cluster one
    call is repeated once, since the first error is how a client learns that a node is gone.
    Thread-safe; a forked child makes a client of its own.
    """

    def __init__(self, url_or_client: str | Redis | RedisCluster, timeout: float) -> None:
        redis = _redis()
        self._timeout = timeout
        self._client: Any = None
        self._process = -1
        self._url: SplitResult | None = None
        if isinstance(url_or_client, str):
            self._url = _checked(url_or_client)
            self.where = _without_secrets(self._url)
            self._check_options(self._url)
        elif isinstance(url_or_client, (redis.Redis, redis.RedisCluster)):
            self._client = url_or_client
            self.where = _address_of(url_or_client)
        else:
            raise ValueError(
                "url_or_client must be a URL, a redis.Redis or a redis.RedisCluster, "
                f"not a {type(url_or_client).__name__}"
            )

    def client(self) -> Any:
        """The client. Made without a lock, that a fork could leave locked; a second one made
        at the same time is as good."""
        if self._url is not None and self._process != os.getpid():
            self._client, self._process = self._made(self._url), os.getpid()
        return self._client

    def close(self) -> None:
        """Closes a client of its own."""
        if self._url is not None and self._process == os.getpid():
            self._process = -1
            self._client.close()

    def _check_options(self, url: SplitResult) -> None:
        options = self._options(url)
        kind = options.pop("connection_class", _redis().Connection)
        try:
            kind(**options)
        except Exception:  # a TypeError or any other, with what was passed in its text
            raise ValueError(
                f"url_or_client must have options that redis-py knows, in {self.where!r}"
                f" some of these are not, or have a bad value: {_names_of(url.query)}"
            ) from None

    def _made(self, url: SplitResult) -> Any:
        redis = _redis()
        kind = url.scheme.partition("+")[2]
        if kind == "sentinel":
            return self._by_sentinel(url)
        if kind == "cluster":
            return self._of_cluster(url)
        options = self._options(url)
        pool = redis.ConnectionPool(**options)
        return redis.Redis(connection_pool=pool)

    def _by_sentinel(self, url: SplitResult) -> Any:
        redis = _redis()
        options = self._options(url)
        tls = options.pop("connection_class", None) is not None
        # Those of the Sentinels themselves; TLS and timeouts are alike.
        login = {
            name: options.pop(f"sentinel_{name}")
            for name in ("username", "password")
            if f"sentinel_{name}" in options
        }
        same = {
            name: value
            for name, value in options.items()
            if name.startswith(("ssl_", "socket_", "retry")) or name == "protocol"
        }
        if tls:
            options["ssl"] = same["ssl"] = True
        sentinel = redis.Sentinel(_nodes(url), sentinel_kwargs=same | login, **options)
        return sentinel.master_for(_path(url)[0])

    def _of_cluster(self, url: SplitResult) -> Any:
        redis = _redis()
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        options = self._options(url)
        if options.pop("connection_class", None) is not None:
            options["ssl"] = True
        if int(redis.__version__.partition(".")[0]) < 6:
            options["cluster_error_retry_attempts"] = 1
        else:
            options["retry"] = Retry(NoBackoff(), 1)
        nodes = [redis.cluster.ClusterNode(*node) for node in _nodes(url)]
        return redis.RedisCluster(startup_nodes=nodes, **options)

    def _options(self, url: SplitResult) -> dict[str, Any]:
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        scheme, _, kind = url.scheme.partition("+")
        plain = url._replace(scheme=scheme)
        if kind:
            user, at, _ = url.netloc.rpartition("@")
            path = _path(url)
            database = f"/{path[1]}" if len(path) > 1 else ""
            plain = plain._replace(netloc=f"{user}{at}localhost", path=database)
        given = _redis().connection.parse_url(plain.geturl())
        if kind:
            given.pop("host", None)
        return {
            "socket_timeout": self._timeout,
            "socket_connect_timeout": self._timeout,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            **given,
        }


def _redis() -> Any:
    try:
        import redis
    except ImportError as error:
        raise RedisNotInstalledError(
            "RedisLeaseManager needs the package redis: pip install 'batch-dispatcher[redis]'"
        ) from error
    return redis


def _checked(text: str) -> SplitResult:
    """The URL, if it is one that can work. No message shows any of it but where it points."""
    try:
        url = urlsplit(text)
    except ValueError:
        raise ValueError("url_or_client must be a URL; what was given cannot be read") from None
    if url.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(f"url_or_client must begin with one of {known}, not with {url.scheme!r}")
    kind = url.scheme.partition("+")[2]
    if url.scheme == "unix":
        if not url.path:
            raise ValueError("url_or_client must name a socket: unix:///path/to/redis.sock")
        return url
    for _, port in _nodes(url):
        if not 0 < port < 65_536:
            raise ValueError("url_or_client must have ports from 1 to 65535")
    path = _path(url)
    if kind == "sentinel" and not path:
        raise ValueError(
            "url_or_client must name the service that the Sentinels watch: "
            f"{url.scheme}://host:port,host:port/service"
        )
    if kind == "cluster" and path:
        raise ValueError("url_or_client must have no database: a Redis Cluster has only one")
    database = path[1:] if kind == "sentinel" else path
    if len(database) > 1 or any(not part.isdecimal() for part in database):
        raise ValueError("url_or_client must have a number for its database, or none")
    return url


def _nodes(url: SplitResult) -> list[tuple[str, int]]:
    kind = url.scheme.partition("+")[2]
    places = url.netloc.rpartition("@")[2]
    nodes = []
    for place in places.split(",") if kind else [places]:
        try:
            one = urlsplit(f"//{place}")
            nodes.append((one.hostname or "", one.port or DEFAULT_PORTS.get(kind, 6379)))
        except ValueError:
            raise ValueError("url_or_client must have ports from 1 to 65535") from None
        if kind and not one.hostname:
            raise ValueError(f"url_or_client must name hosts: {url.scheme}://host:port,host:port")
    return nodes


def _path(url: SplitResult) -> list[str]:
    return [unquote(part) for part in url.path.split("/") if part]


def _names_of(query: str) -> str:
    return ", ".join(part.partition("=")[0] for part in query.split("&") if part) or "(none)"


def _without_secrets(url: SplitResult) -> str:
    place = url.netloc.rpartition("@")[2] if url.scheme != "unix" else ""
    return f"{url.scheme}://{place}{url.path}"


def _address_of(client: Any) -> str:
    """Where a client that was handed in connects to."""
    pool = getattr(client, "connection_pool", None)
    if pool is None:
        nodes = getattr(client, "startup_nodes", None) or []
        return "redis+cluster://" + ",".join(f"{node.host}:{node.port}" for node in nodes)
    if hasattr(pool, "service_name"):
        return f"redis+sentinel:///{pool.service_name}"
    options = pool.connection_kwargs
    if "path" in options:
        return f"unix://{options['path']}"
    return f"redis://{options.get('host', 'localhost')}:{options.get('port', 6379)}"
