"""Message ids: generated ones carry their bucket, that of a natural one is its hash. Pure."""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64encode
from hashlib import blake2b

from limiters._support.validation import UNSHOWN, ArgumentError, text

MARK = "~"
"""What generated ids begin with, and natural ones must not."""

LONGEST = 255
MOST_BUCKETS = 4_096

# "~", the bucket in two digits of this, the time in seven, chance in ten: 60 bits of it.
_DIGITS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_GENERATED = re.compile(r"~[-0-9A-Z_a-z]{19}").fullmatch


def generated(bucket: int, now_ms: int, count: int) -> list[str]:
    """So many new ids of `bucket`. Those of one bucket sort by the time they were made."""
    start = MARK + _in_digits(bucket, 2) + _in_digits(now_ms, 7)
    chance = urlsafe_b64encode(os.urandom(15 * ((count + 1) // 2))).decode()
    return [start + chance[at : at + 10] for at in range(0, 10 * count, 10)]


def bucket_of(identity: str, buckets: int) -> int:
    """Where a message is. ArgumentError if there can be no such message.

    >>> bucket_of(generated(17, 1_790_000_000_000, 1)[0], 64)
    17
    >>> bucket_of("user-7@example.org", 64)
    16
    """
    text("id", identity)
    if identity.startswith(MARK):
        bucket = _generated_bucket(identity)
        if bucket is None:
            raise ArgumentError(
                "id", UNSHOWN, f"not begin with {MARK!r}, as generated ones do: {identity!r}"
            )
        if bucket >= buckets:
            advice = f"it is of bucket {bucket}, and the topic has only {buckets}"
            raise ArgumentError("id", identity, "be of this topic", advice)
        return bucket
    written = as_bytes(identity)
    if len(written) > LONGEST:
        raise ArgumentError(
            "id", UNSHOWN, f"be at most {LONGEST} bytes, not {len(written)}: {identity!r}"
        )
    return int.from_bytes(blake2b(written, digest_size=8).digest(), "big") % buckets


def as_bytes(text: str) -> bytes:
    """As ids, owners and consumers are written."""
    return text.encode("utf-8", "surrogatepass")


def as_text(stored: bytes) -> str:
    """And read. What another program has written and is no text is shown with backslashes."""
    try:
        return stored.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return stored.decode("utf-8", "backslashreplace")


def _generated_bucket(identity: str) -> int | None:
    if not _GENERATED(identity):
        return None
    return _VALUES[identity[1]] * 64 + _VALUES[identity[2]]


def _in_digits(number: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, last = divmod(number, 64)
        digits = _DIGITS[last] + digits
    return digits
