"""The linter of this project's English: `python -m tests.language`, a part of `make check`.

`words.toml` lists the patterns to avoid, with a better way to write each, and the places that
are not checked yet.
"""
