"""Errors of Redis in words: what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

from limiters._redis.acl import Needs

KNOWN = (
    # Signs in the name or the text of an error, and what they mean. The first entry that fits
    # counts.
    (("UNSUPPORTED",), "is version {version}; 6.2 or newer is needed"),
    (
        ("NOAUTH", "Authentication required", "unauthenticated", "HELLO must be called"),
        "asks for a password; put it into the URL before the host, as :password@host",
    ),
    (
        ("NOPERM", "NoPermission", "no permissions", "can't run this command", "can't access"),
        "does not allow this user what is needed; allow it: ACL SETUSER <name> {rules}",
    ),
    (
        ("WRONGPASS", "invalid password", "invalid username", "AuthenticationError"),
        "does not accept the user and password in the URL",
    ),
    (
        ("READONLY", "ReadOnlyError", "now a slave"),
        "is a read-only replica; name the master, or let Sentinels name it: redis+sentinel://",
    ),
    (
        ("OOM", "OutOfMemoryError"),
        "has no memory left; free some, or give it more: CONFIG SET maxmemory <bytes>",
    ),
    (
        ("NOREPLICAS",),
        "has too few replicas to write (min-replicas-to-write); bring a replica back, or lower it",
    ),
    (
        ("MISCONF",),
        "refuses writes since it cannot save to its disk; see its log, or set "
        "stop-writes-on-bgsave-error no",
    ),
    (
        ("MovedError", "AskError", "MOVED", "CROSSSLOT", "CrossSlot"),
        "is one node of a cluster; use redis+cluster://",
    ),
    (
        ("Cluster mode is not enabled", "cluster support disabled"),
        "is not a cluster; use redis://",
    ),
    (
        ("unknown command 'SENTINEL'", "unknown command `SENTINEL`"),
        "is no Sentinel; use redis://",
    ),
    (
        ("InvalidResponse", "Protocol Error"),
        "is none: something else answers on that port; is the port right?",
    ),
    (
        # redis-py before 6 looks for the first of no slots at all.
        ("CLUSTERDOWN", "ClusterDownError", "not covered", "TTL exhausted", "list index out"),
        "is a cluster that does not serve all slots at present; see CLUSTER INFO",
    ),
    (
        ("MASTERDOWN", "MasterDownError", "MasterNotFoundError"),
        "has no master at present; the Sentinels have none of that name, or have yet to "
        "choose one, or do not answer",
    ),
    (("WRONGTYPE",), "has something else under {key}; delete that, or use another prefix"),
    (("LOADING", "BusyLoading"), "is still loading its data; it will answer when it is done"),
    (("BUSY",), "is busy with the script of another client; see SCRIPT KILL"),
    (
        ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed"),
        "shows a certificate that is not trusted; name its authority in the URL: ?ssl_ca_certs=...",
    ),
    (
        ("Timeout", "timed out"),
        "does not answer in time; is it up and reachable, and is TLS on both sides or on none?",
    ),
    (
        ("Connection closed", "Connection reset", "Broken pipe", "EOF occurred"),
        "cuts the connection; was it stopped? If it wants TLS, the URL begins with rediss://",
    ),
    (("Connection refused",), "refuses connections; does it run, and on that port?"),
    (
        ("Name or service not known", "nodename nor servname", "name resolution"),
        "has a name that cannot be found; is the host spelled right?",
    ),
    (("SSL",), "and this side cannot agree on TLS; is it rediss:// there?"),
    (("No such file",), "is not there; does it run, with this path as its unixsocket?"),
)

AWAY = "away"
"""The cause of all errors that end by themselves when the server is there. One outage shows several
of them: a connection that is cut, then one that is refused, then a server that loads."""

_PASSING = (
    "CLUSTERDOWN",
    "MASTERDOWN",
    "LOADING",
    "Timeout",
    "Connection closed",
    "Connection refused",
    "Name or service not known",
    "No such file",
)
"""The first signs of the entries for a server that is away."""

_WRONG_KIND = ("Cluster mode is not enabled", "unknown command 'SENTINEL'", "InvalidResponse")
"""The first signs of a server of another kind than the URL says."""


def in_words(error: Exception, where: str, key: str | bytes, needs: Needs, prefix: str) -> str:
    """Return what `error` means in a call with `key` to the Redis at `where`. `needs` is what the
    user must be allowed on keys that begin with `prefix`.

    >>> in_words(Exception("LOADING"), "redis://db", "shop:x", Needs("+get"), "shop")
    'Redis at redis://db is still loading its data; it will answer when it is done'
    """
    _, meaning = _found(error) or ("", "cannot be used: {error}")
    words = meaning.format(
        error=" from ".join(_chain(error)),
        key=key.decode() if isinstance(key, bytes) else key,
        version=str(error).rpartition(" ")[2],
        rules=needs.rules(prefix, cluster="+cluster://" in where),
    )
    return f"Redis at {where} {words}"


def is_known(error: Exception) -> bool:
    """Whether `in_words` has words for it: then the server or the way to it is at fault, not the
    stored data."""
    return _found(error) is not None


def cause_of(error: BaseException) -> str:
    """Return the kind of trouble: another one is worth a log line after this, the same is not."""
    known = _found(error)
    if known is not None:
        return AWAY if known[0] in _PASSING else known[0]
    passing = any(isinstance(one, OSError) for one in _errors(error))
    return AWAY if passing else type(error).__name__


def is_misaddressed(error: BaseException) -> bool:
    """Whether the server is of another kind than the URL says: waiting does not help."""
    return cause_of(error) in _WRONG_KIND


def may_pass(error: Exception) -> bool:
    """Whether the call is worth repeating: the server is away or starts, and does not refuse."""
    import redis

    every = list(_errors(error))
    refusing = (redis.AuthenticationError, redis.exceptions.NoPermissionError)
    if any(isinstance(one, refusing) for one in every):
        return False
    passing = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ReadOnlyError, OSError)
    if isinstance(error, redis.exceptions.RedisClusterException):  # it hides what it comes from
        return any(isinstance(one, passing) for one in every)
    return isinstance(error, passing) or "LOADING" in str(error)


def _found(error: BaseException) -> tuple[str, str] | None:
    """Return the first sign of the entry that fits the error, and its meaning."""
    text = " from ".join(_chain(error))
    for signs, meaning in KNOWN:
        if any(sign in text for sign in signs):
            return signs[0], meaning
    return None


def _chain(error: BaseException) -> Iterator[str]:
    """Iterate over the error and its causes, in words."""
    return (f"{type(one).__name__}: {one}" for one in _errors(error))


def _errors(error: BaseException | None) -> Iterator[BaseException]:
    """Iterate over the error and its causes: a client of a cluster hides them behind an error of
    its own."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
