"""Message ids. A generated id carries its bucket; the bucket of a natural id is its hash. Pure."""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64encode
from hashlib import blake2b

from limiters._support.validation import UNSHOWN, ArgumentError, text

MARK = "~"
"""Prefix of generated ids; a natural id must not begin with it."""

LONGEST = 255
MOST_BUCKETS = 4_096

# "~", the bucket in two of these digits, the time in seven, random digits in ten: 60 bits.
_DIGITS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_GENERATED = re.compile(r"~[-0-9A-Z_a-z]{19}").fullmatch


def generated(bucket: int, now_ms: int, count: int) -> list[str]:
    """Generate `count` ids of `bucket`. Ids of one bucket sort by the time they were generated."""
    start = MARK + _in_digits(bucket, 2) + _in_digits(now_ms, 7)
    chance = urlsafe_b64encode(os.urandom(15 * ((count + 1) // 2))).decode()
    return [start + chance[at : at + 10] for at in range(0, 10 * count, 10)]


def bucket_of(identity: str, buckets: int) -> int:
    """Return the bucket of a message. ArgumentError if `identity` cannot be an id.

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
    """Encode an id, an owner or a consumer."""
    return text.encode("utf-8", "surrogatepass")


def as_text(stored: bytes) -> str:
    """Decode an id, an owner or a consumer. Bytes of another program that are no text are shown
    with backslashes."""
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
