"""The scripts that keep a limit inside Redis, and its keys."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from urllib.parse import quote

from limiters._redis.script import Script, of_source
from limiters.leases._format import lua_constants, lua_prelude

OLD_FORMAT = 1
"""The number of the first format, which is a part of its keys."""

OLD_KEYS = ("limit", "members", "asks", "going", "dear", "coming", "spent", "totals", "heard")
"""What the first format stored of a limit. The first key is kept occupied."""

TWIN = (
    *("keys", "ledger", "shares", "registry", "state", "certainty", "permits"),
    *("settlement", "slots", "division", "coordinator"),
)
"""The parts of the twin of `_coordinator`, in the order in which they need each other."""


def keys_of(prefix: str, name: str, *, registered: bool = True) -> tuple[str, ...]:
    """The keys of one limit, as limit_state.lua lists them. Those of the limit itself share a hash
    tag, so that a cluster keeps them together; the registry is that of the whole server.

    >>> keys_of("dispatcher", "my {db}")[0]
    'dispatcher:limits:{my%20%7Bdb%7D}:limit'
    """
    tag = f"{{{quote(name, safe='')}}}"
    own = [f"{prefix}:limits:{tag}:{key}" for key in ("limit", "grants", "people")]
    return (
        *own,
        old_keys_of(prefix, name)[0],
        *((registry_key(prefix),) if registered else ()),
    )


def old_keys_of(prefix: str, name: str) -> tuple[str, ...]:
    """The keys of one limit in the first format."""
    return tuple(f"{prefix}:v{OLD_FORMAT}:{{{quote(name, safe='')}}}:{key}" for key in OLD_KEYS)


def registry_key(prefix: str) -> str:
    """The key of what a server knows of all limits."""
    return f"{prefix}:limits:registry"


def source_of(*parts: str, server: str | None = None) -> str:
    """The text of the script that `parts` make together; `server` stands in for limit_server.lua,
    the server's clock and identity.

    Each part is a room of its own, with a table for what others use of it: a script has room for no
    more than 200 names. Only those of limit_server.lua and limit_keys.lua are seen everywhere.
    """
    clock = server if server is not None else _text_of("server")
    return "\n".join((_prelude(), clock, *map(_room_of, parts)))


@cache
def _room_of(part: str) -> str:
    text = _text_of(part)
    constants = lua_constants(text)
    if part == "keys":
        return constants + text
    return f"local {part} = {{}}\ndo\n{constants}{text}\nend"


@cache
def _text_of(part: str) -> str:
    return (files(__package__) / "lua" / f"limit_{part}.lua").read_text("utf-8")


_prelude = cache(lua_prelude)


def _script(*parts: str) -> Script:
    return of_source(source_of(*parts))


SYNC = _script(*TWIN, "sync")
SET = _script(*TWIN, "set")
DELETE = _script(*TWIN, "delete")
EVICT = _script(*TWIN, "evict")
LOOK = _script("keys", "look")
MARK = _script("registry", "mark")
DELETE_OLD = _script("registry", "old")
