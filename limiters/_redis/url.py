"""URLs of Redis servers: which can work, and what they name. Pure."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, unquote, urlsplit

from limiters._support.validation import UNSHOWN, ArgumentError

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


def _refused(requirement: str, advice: str = "") -> ArgumentError:
    return ArgumentError("url_or_client", UNSHOWN, requirement, advice)


def checked(text: str) -> SplitResult:
    """Return the URL, if it is one that can work. No message shows any part of it: a password that
    was typed in the wrong place may be anywhere."""
    if text.startswith(("'", '"')):
        raise _refused("be a URL; it begins with a quote: leave the quotes out")
    if text != text.strip():
        place = "end" if text == text.lstrip() else "beginning"
        raise _refused(f"be a URL; it has a space at its {place}")
    try:
        url = urlsplit(text)
    except ValueError:
        raise _refused("be a URL; what was given cannot be read") from None
    if url.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        # What stands before a mere colon may be a user, or a password.
        other = f", not with {url.scheme!r}" if text.startswith(f"{url.scheme}://") else ""
        raise _refused(
            f"begin with one of {known}{other}",
            "that of a Redis on this machine is redis://localhost:6379/0",
        )
    kind = url.scheme.partition("+")[2]
    if "@" in url.path + url.query + url.fragment:
        # Most likely the end of a password that has a "/", "?" or "#" in it.
        raise _refused(
            "have odd characters percent-encoded (urllib.parse.quote), those of a password too"
        )
    if url.scheme == "unix":
        if not url.path:
            raise _refused("name a socket: unix:///path/to/redis.sock")
        return url
    for _, port in nodes_of(url):
        if not 0 < port < 65_536:
            raise _refused("have ports from 1 to 65535")
    path = path_of(url)
    if kind == "sentinel" and not path:
        raise _refused(
            "name the service that the Sentinels watch: "
            f"{url.scheme}://host:port,host:port/service",
        )
    if kind == "cluster" and path:
        raise _refused("have no database: a Redis Cluster has only one")
    database = path[1:] if kind == "sentinel" else path
    if len(database) > 1 or any(not part.isdecimal() for part in database):
        raise _refused("have a number for its database, or none")
    return url


def nodes_of(url: SplitResult) -> list[tuple[str, int]]:
    """Return the hosts and ports that the URL names."""
    kind = url.scheme.partition("+")[2]
    places = url.netloc.rpartition("@")[2]
    nodes = []
    for place in places.split(",") if kind else [places]:
        try:
            one = urlsplit(f"//{place}")
            nodes.append((one.hostname or "", one.port or DEFAULT_PORTS.get(kind, 6379)))
        except ValueError:
            raise _refused("have ports from 1 to 65535") from None
        if re.search(r"[&;=\s]", place):
            raise _refused("have its options behind a ?")
        if kind and not one.hostname:
            raise _refused(f"name hosts: {url.scheme}://host:port,host:port")
    return nodes


def path_of(url: SplitResult) -> list[str]:
    """Return the parts of the path: with Sentinels the service, then the database."""
    return [unquote(part) for part in url.path.split("/") if part]


def option_names(query: str) -> str:
    """Return the names of the options, without their values."""
    return ", ".join(part.partition("=")[0] for part in query.split("&") if part) or "(none)"


def without_secrets(url: SplitResult) -> str:
    """Return the address for people: scheme, hosts, ports and path, up to what may be an option."""
    place = url.netloc.rpartition("@")[2] if url.scheme != "unix" else ""
    return f"{url.scheme}://{place}{re.split('[&;=]', url.path)[0]}"


def shown(text: str) -> str:
    """Return the address in a text that should be a URL, for people; nothing of it if it is none.

    >>> shown("redis://user:secret@db/0?password=secret"), shown("redis:/:secret@db")
    ('redis://db/0', '(a URL that cannot be used)')
    """
    try:
        return without_secrets(checked(text))
    except ArgumentError:
        return "(a URL that cannot be used)"
