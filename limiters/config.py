"""LimiterConfig: a limiter as plain values, for processes that are started elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from limiters._redis.url import checked, without_secrets
from limiters._support.validation import UNSHOWN, ArgumentError, named
from limiters.shared import SharedResource

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, kw_only=True, repr=False)
class LimiterConfig:
    """What a SharedResource is made of, as plain values that can be pickled and compared.

    * `url`, `name`, `lease_time`, `prefix`: those of its RedisLeaseManager. Without a `url`
      there is nothing to share, and each process has only its `reserved_capacity`.
    * all others: those of the SharedResource.

    Wrong values are refused when it is made, not where it is used. Its repr shows no secrets.

    >>> LimiterConfig(url="redis://:secret@db", name="orders", shared_capacity=20_000, factor=100)
    LimiterConfig(url='redis://db', name='orders', shared_capacity=20000, factor=100)
    """

    url: str | None = None
    name: str = ""
    shared_capacity: float = 0
    reserved_capacity: float = 0
    factor: float = 1
    max_interval: float = 0.5
    period: float = 1.0
    weight: float = 1.0
    ramp: tuple[float, float] | None = None
    lease_time: float = 5.0
    prefix: str = "dispatcher"

    def __post_init__(self) -> None:
        if self.url is not None and not isinstance(self.url, str):
            raise ArgumentError("url", UNSHOWN, f"be a str, not a {type(self.url).__qualname__}")
        if self.url is None and (self.name or self.shared_capacity):
            raise ArgumentError(
                "url",
                UNSHOWN,
                "say in which Redis the limit is shared, such as redis://host:6379/0",
                "leave name and shared_capacity out to share nothing",
            )
        with named({"url_or_client": "url"}):
            self.build()  # it sends nothing, and refuses what is wrong

    def build(self) -> SharedResource:
        """A new limiter, not started."""
        manager = None
        if self.url is not None:
            from limiters.leases.redis import RedisLeaseManager

            manager = RedisLeaseManager(
                self.url, name=self.name, lease_time=self.lease_time, prefix=self.prefix
            )
        return SharedResource(
            shared_capacity=self.shared_capacity,
            reserved_capacity=self.reserved_capacity,
            factor=self.factor,
            lease_manager=manager,
            max_interval=self.max_interval,
            period=self.period,
            weight=self.weight,
            ramp=self.ramp,
        )

    def __repr__(self) -> str:
        return f"LimiterConfig({', '.join(self._told())})"

    def _told(self) -> Iterator[str]:
        for field, value in asdict(self).items():
            if value == getattr(type(self), field):
                continue
            if field == "url":
                value = without_secrets(checked(value))
            yield f"{field}={value!r}"
