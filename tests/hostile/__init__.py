"""Kinds of damage to files and to keys in Redis, for suites that try all of them."""
