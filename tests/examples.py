"""How many examples Hypothesis tries: in `make fast` a fifth of those in `make test`."""

from __future__ import annotations

from hypothesis import settings

FAST = "fast"  #: A profile, for --hypothesis-profile; tests/conftest.py registers it.

USUAL = 100  #: What a test has that asks for no number, unless the profile says otherwise.


def examples(number: int) -> int:
    """As many as the profile makes of `number`, for `settings(max_examples=...)`."""
    return max(1, number * settings().max_examples // USUAL)
