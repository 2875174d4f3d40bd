"""From a URL, or a client that was handed in, to a client with bounded patience."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

from limiters._redis.url import checked, nodes_of, option_names, path_of, without_secrets
from limiters._support.validation import UNSHOWN, ArgumentError
from limiters.errors import RedisNotInstalledError

if TYPE_CHECKING:
    from redis import Redis, RedisCluster


class RedisConnection:
    """Where a Redis is, and a client for it that is made when it is first needed.

    Each step of a call (connecting, authenticating, asking) takes at most `timeout` seconds,
    and nothing is tried again: whoever asks knows best when that makes sense. In a cluster one
    call is repeated once, since the first error is how a client learns that a node is gone.
    Thread-safe; a forked child makes a client of its own.
    """

    def __init__(self, url_or_client: str | Redis | RedisCluster, timeout: float) -> None:
        redis = _redis()
        self._timeout = timeout
        self._given: Any = None
        self._made: dict[int, Any] = {}
        """The client of its own, by the process that made it."""
        self._url: SplitResult | None = None
        if isinstance(url_or_client, str):
            self._url = checked(url_or_client)
            self.where = without_secrets(self._url)
            self._check_options(self._url)
        elif isinstance(url_or_client, (redis.Redis, redis.RedisCluster)):
            self._given = url_or_client
            self.where = _address_of(url_or_client)
        else:
            kind = type(url_or_client)
            raise ArgumentError(
                "url_or_client",
                UNSHOWN,
                "be a URL, a redis.Redis or a redis.RedisCluster, not a "
                f"{kind.__module__}.{kind.__qualname__}",
            )

    def client(self) -> Any:
        """The client. Made without a lock, that a fork could leave locked."""
        if self._url is None:
            return self._given
        process = os.getpid()
        client = self._made.get(process)
        if client is None:
            new = self._make(self._url)
            client = self._made.setdefault(process, new)
            if client is not new:  # another thread was faster
                new.close()
            for other in [one for one in tuple(self._made) if one != process]:
                self._made.pop(other, None)
        return client

    @property
    def is_cluster(self) -> bool:
        """Whether keys with different hash tags may be on different nodes. Asks nobody: a client of
        a cluster cannot even be made while the cluster is away."""
        if self._url is None:
            return hasattr(self._given, "nodes_manager")
        return self._url.scheme.endswith("+cluster")

    def close(self) -> None:
        """Closes a client of its own."""
        client = self._made.pop(os.getpid(), None)
        if client is not None:
            client.close()
            # That leaves the pool alone, which is ours as well. Who is in the middle of a
            # request in another thread ends it.
            pool = getattr(client, "connection_pool", None)
            if pool is not None:
                pool.disconnect(inuse_connections=False)

    def _check_options(self, url: SplitResult) -> None:
        """A connection takes the same options as one to be used; making it sends nothing."""
        try:
            options = self._options(url)
            for name in ("max_connections", "sentinel_username", "sentinel_password"):
                options.pop(name, None)
            options.pop("connection_class", _redis().Connection)(**options)
        except Exception:  # its text may show what was passed
            raise ArgumentError(
                "url_or_client",
                UNSHOWN,
                "have options that redis-py knows, with values of their kind",
                f"{self.where} has some that are not: {option_names(url.query)}",
            ) from None

    def _make(self, url: SplitResult) -> Any:
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
        sentinel = redis.Sentinel(nodes_of(url), sentinel_kwargs=same | login, **options)
        return sentinel.master_for(path_of(url)[0])

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
        nodes = [redis.cluster.ClusterNode(*node) for node in nodes_of(url)]
        return redis.RedisCluster(startup_nodes=nodes, **options)

    def _options(self, url: SplitResult) -> dict[str, Any]:
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        scheme, _, kind = url.scheme.partition("+")
        place, path = url.netloc, url.path
        if kind:
            # As if it were a single server, for what it says beside the hosts.
            user, at, _ = url.netloc.rpartition("@")
            place, path = f"{user}{at}localhost", "/".join(["", *path_of(url)[1:]])
        given = _redis().connection.parse_url(f"{scheme}://{place}{path}?{url.query}")
        if kind:
            given.pop("host", None)
        return {
            "socket_timeout": self._timeout,
            "socket_connect_timeout": self._timeout,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            **given,
        }


@contextmanager
def interruptible(client: Any) -> Iterator[None]:
    """For calls to `client` that anything may interrupt: Ctrl-C in the main thread, for example.

    An interrupted call may leave its reply unread. redis-py gives its connection to the next call,
    which would take that reply for its own. So all connections that are not in use are closed.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, _redis().RedisError):  # after these redis-py does so itself
            _close_idle(client)
        raise


def _close_idle(client: Any) -> None:
    nodes = client.get_nodes() if hasattr(client, "nodes_manager") else ()
    clients = [node.redis_connection for node in nodes] if nodes else [client]
    for pool in [one.connection_pool for one in clients if one is not None]:
        if isinstance(pool, _redis().BlockingConnectionPool):  # older ones close all or none
            pool.disconnect()
        else:
            pool.disconnect(inuse_connections=False)


def _redis() -> Any:
    try:
        import redis
    except ImportError as error:
        raise RedisNotInstalledError(
            "what is kept in Redis needs the package redis: pip install 'batch-dispatcher[redis]'"
        ) from error
    return redis


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
