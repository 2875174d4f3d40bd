"""python -m tests.fuzz.fuzzing NAME CORPUS SECONDS: has atheris look for inputs on which one target
fails. It needs the dependency group `fuzz`; `python -m tests.fuzz` calls it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz import playing
from tests.fuzz.targets import target

LONGEST = 20_000
"""The longest input, in bytes."""


def main(arguments: Sequence[str]) -> None:
    """Run the fuzzer. This does not return: the fuzzer ends the process."""
    import atheris

    name, corpus, seconds = arguments
    with atheris.instrument_imports(include=["dispatcher", "limiters"]):
        check = target(name).check
        for number, seed in enumerate(playing.inputs(name)):
            check(seed)  # now, so that the modules that it imports are instrumented too
            Path(corpus, f"seed-{number}").write_bytes(seed)
    playing.bound_memory()
    options = {
        "artifact_prefix": f"{corpus}.",
        "max_len": LONGEST,
        "max_total_time": seconds,
        "print_final_stats": 1,
        "report_slow_units": playing.SECONDS,
        "timeout": playing.SECONDS,
    }
    arguments_of_fuzzer = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([name, corpus, *arguments_of_fuzzer], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
