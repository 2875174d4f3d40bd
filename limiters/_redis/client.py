"""Makes a client with bounded time-outs from a URL, or uses a client that was passed."""

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
    """The address of a Redis, and a client for it that is made when it is first needed.

    Each step of a call (connecting, authenticating, asking) takes at most `timeout` seconds, and
    nothing is tried again: the caller decides when that makes sense. In a cluster one call is
    repeated once, since the first error is how a client learns that a node is gone. Thread-safe; a
    forked child makes a client of its own.
    """

    def __init__(self, url_or_client: str | Redis | RedisCluster, timeout: float) -> None:
        redis = _redis()
        self._timeout = timeout
        self._given: Any = None
        self._made: dict[int, Any] = {}
        """The clients made here, by the process that made them."""
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
        """Return the client. It is made without a lock, since a fork could leave that locked."""
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
        """Whether keys with different hash tags may be on different nodes. Sends nothing: a client
        of a cluster cannot even be made while the cluster is away."""
        if self._url is None:
            return hasattr(self._given, "nodes_manager")
        return self._url.scheme.endswith("+cluster")

    def close(self) -> None:
        """Close the client, if it was made here."""
        client = self._made.pop(os.getpid(), None)
        if client is not None:
            client.close()
            # close() does not close the pool, which was made here as well. A request that is under
            # way in another thread ends first.
            pool = getattr(client, "connection_pool", None)
            if pool is not None:
                pool.disconnect(inuse_connections=False)

    def _check_options(self, url: SplitResult) -> None:
        """Check the options by making a connection with them, which sends nothing."""
        try:
            options = self._options(url)
            for name in ("max_connections", "sentinel_username", "sentinel_password"):
                options.pop(name, None)
            options.pop("connection_class", _redis().Connection)(**options)
        except Exception:  # its text may show a password
            raise ArgumentError(
                "url_or_client",
                UNSHOWN,
                "have options that redis-py accepts, with values of the right type",
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
        # Login options of the Sentinels themselves; TLS and time-outs are those of the server.
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
            # redis-py parses the URL of a single server, for everything except the hosts.
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
    """Run calls to `client` that may be interrupted: by Ctrl-C in the main thread, for example.

    An interrupted call may leave its reply unread. redis-py gives its connection to the next call,
    which would read that reply as its own. So all connections that are not in use are closed.
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
    """Return the address to which a client that was passed connects."""
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
