"""LimiterConfig: a limiter as plain values, for processes that are started elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from limiters._redis.url import checked, without_secrets
from limiters._sharing.options import LimiterOptions, ShareOptions
from limiters._support.options import documented, values_of
from limiters._support.validation import UNSHOWN, ArgumentError, named
from limiters.leases._options import StoredLeaseOptions
from limiters.shared import SharedResource

if TYPE_CHECKING:
    from collections.abc import Iterator


@documented
@dataclass(frozen=True, kw_only=True, repr=False)
class LimiterConfig(LimiterOptions):
    """A SharedResource and its RedisLeaseManager as plain values that can be pickled and compared.

    Without a `url` there is nothing to share, and each process has only its `reserved_capacity`.
    Wrong values are refused when it is made, not where it is used. Its repr shows no secrets.

    >>> LimiterConfig(url="redis://:secret@db", name="orders", shared_capacity=20_000, factor=100)
    LimiterConfig(url='redis://db', name='orders', shared_capacity=20000, factor=100)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.url is None and (self.name or self.shared_capacity):
            raise ArgumentError(
                "url",
                UNSHOWN,
                "say in which Redis the limit is shared, such as redis://host:6379/0",
                "without a name and a shared capacity nothing is shared",
            )
        if self.url is not None and not self.shared_capacity:
            raise ArgumentError(
                "shared_capacity",
                self.shared_capacity,
                "be more than zero where a Redis is named",
                "say how much all instances may spend together, or name no Redis",
            )
        with named({"url_or_client": "url"}):
            self.build()  # it sends nothing, and refuses what is wrong

    def build(self) -> SharedResource:
        """Return a new limiter, not started."""
        manager = None
        if self.url is not None:
            from limiters.leases.redis import RedisLeaseManager

            stored = values_of(StoredLeaseOptions, self)
            manager = RedisLeaseManager(self.url, name=self.name, **stored)
        return SharedResource(lease_manager=manager, **values_of(ShareOptions, self))

    def __repr__(self) -> str:
        return f"LimiterConfig({', '.join(self._shown())})"

    def _shown(self) -> Iterator[str]:
        for name, value in asdict(self).items():
            if value == getattr(type(self), name, UNSHOWN):  # a subclass may require one
                continue
            if name == "url":
                value = without_secrets(checked(value))
            yield f"{name}={value!r}"
