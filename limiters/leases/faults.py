"""What is wrong with a Redis, in words, and what to do about it."""

from __future__ import annotations

from limiters.errors import LeaseManagerError

COMMANDS = (
    "+evalsha +eval +del +exists +get +hdel +hget +hgetall +hlen +hset +info +set +time "
    "+zadd +zrange +zrangebyscore +zrem +zremrangebyscore +zscore"
)
"""What a user of Redis must be allowed to do; HELLO, AUTH and PING beside them."""

KNOWN = (
    # (what the error has in its text, what to say about it), the first that fits
    (("UNSUPPORTED",), "is version {version}; 6.2 or newer is needed"),
    (
        ("NOAUTH", "Authentication required", "HELLO must be called"),
        "asks for a password; put it into the URL: redis://:password@host",
    ),
    (
        (
            "WRONGPASS",
            "invalid password",
            "invalid username-password",
            "without any password configured",
        ),
        "does not accept the user and password in the URL",
    ),
    (
        ("NOPERM", "no permissions", "can't run this command", "can't access"),
        "does not allow this user what is needed; allow it: ACL SETUSER <name> ~{keys} {commands}",
    ),
    (("READONLY",), "is a read-only replica; name the master, or use redis+sentinel://"),
    (("OOM",), "has no memory left; raise its maxmemory, or free some"),
    (
        ("MISCONF",),
        "refuses writes since it cannot save to its disk; see its log, or set "
        "stop-writes-on-bgsave-error no",
    ),
    (
        ("CLUSTERDOWN", "not covered", "cannot be connected", "TTL exhausted"),
        "is a cluster that does not serve all slots at present; see CLUSTER INFO",
    ),
    (
        ("MASTERDOWN", "No master found"),
        "has no master at present; the Sentinels know of none under that name, or wait for one",
    ),
    (
        ("WRONGTYPE",),
        "has something else under {key}; delete that, or use another prefix",
    ),
    (("LOADING",), "is still loading its data; it will answer when it is done"),
    (("BUSY",), "is busy with a script of somebody else's; see SCRIPT KILL"),
    (("Timeout", "timed out"), "does not answer in time; is it up, reachable and not overloaded?"),
    (("Connection refused",), "refuses connections; does it run, and on that port?"),
    (
        ("Name or service not known", "nodename nor servname", "name resolution", "getaddrinfo"),
        "has a name that cannot be found; is the host spelled right?",
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed"),
        "shows a certificate that is not trusted; name its authority in the URL: ?ssl_ca_certs=...",
    ),
    (
        ("SSL", "WRONG_VERSION_NUMBER"),
        "and TLS do not go together; is it rediss:// there, and does the certificate fit the host?",
    ),
    (("No such file",), "is not there; does it run, with this path as its unixsocket?"),
)


def explained(error: Exception, where: str, key: str) -> LeaseManagerError:
    """What `error`, of the Redis `where`, means; `key` is that of the limit.

    >>> explained(Exception("OOM command not allowed"), "redis://db:6379", "d:v1:{x}:limit")
    LeaseManagerError('Redis at redis://db:6379 has no memory left; raise its maxmemory, ...')
    """
    said = f"{type(error).__name__}: {error}"
    words = next(
        (meaning for signs, meaning in KNOWN if any(sign in said for sign in signs)),
        "cannot be used: {said}",
    ).format(
        said=said,
        key=key,
        version=said.rpartition(" ")[2],
        keys=f"{key.partition(':v1:')[0]}:*",
        commands=COMMANDS,
    )
    return LeaseManagerError(f"Redis at {where} {words}")
