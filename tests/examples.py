"""How many examples Hypothesis tries: in `make test` a third of those that a test asks for,
in `make fast` a fifth, in `make long` twice as many."""

from __future__ import annotations

from hypothesis import settings

FAST, USUAL, MANY = "fast", "usual", "many"
"""Profiles, for --hypothesis-profile; tests/conftest.py registers them, and loads the usual one."""

EXAMPLES = {FAST: 20, USUAL: 33, MANY: 200}
"""How many examples a test has that asks for no number, by profile."""

ASKED_FOR = 100
"""How many examples Hypothesis itself would try for such a test."""


def examples(number: int) -> int:
    """As many as the profile makes of `number`, for `settings(max_examples=...)`."""
    return max(1, number * settings().max_examples // ASKED_FOR)
