"""The Redis, and the limit or topic in it: options that most commands have."""

from __future__ import annotations

from dataclasses import dataclass, fields

from dispatcher.cli._options.declaring import argument, option
from limiters._support.options import CheckedOptions

REDIS = "redis://localhost:6379/0"


@dataclass(frozen=True, kw_only=True)
class RedisOptions(CheckedOptions):
    """The Redis, and the prefix of its keys."""

    redis: str = option(
        "redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://. Better in the "
        "variable than here: others can see a command line",
        "URL",
        REDIS,
    )
    prefix: str = option("prefix of its keys", "PREFIX", "dispatcher")

    @property
    def is_local(self) -> bool:
        """Whether the Redis is the default one."""
        return self.is_usual("redis")

    def is_usual(self, name: str) -> bool:
        """Whether an option has its default."""
        return bool(getattr(self, name) == {it.name: it.default for it in fields(self)}[name])


@dataclass(frozen=True, kw_only=True)
class LimitOptions(RedisOptions):
    """A limit that many instances share."""

    name: str = argument("NAME", "the limit: the name its instances share")


@dataclass(frozen=True, kw_only=True)
class TopicOptions(RedisOptions):
    """A topic of messages."""

    topic: str = argument("TOPIC", "the topic: the name its Timeline has")
