"""python -m tests.release [DIST | --ready]: checks what a release consists of.

With the folder of a wheel and a source archive: what they contain, and, in an empty environment
with the wheel and nothing else of this copy, `dispatcher --version` and the demo. With `--ready`:
what is left to be done before the release is published. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import hatch_build

ROOT = Path(__file__).parents[1]
NO_CONTACT = "Contact: not set yet"
RELATIVE_LINK = re.compile(r"\]\((?!https://|#)([^)\s]+)\)")
"""The package index shows the README without the files next to it."""
EXTRAS = "cli,embedded,metrics,redis"
"""All but Spark, which is large and needs Java."""


def project() -> dict[str, Any]:
    """The table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def address() -> str:
    """The address of the project; empty while it has none."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    return str(tools["hatch"]["metadata"]["hooks"]["custom"]["address"])


def version() -> str:
    """From pyproject.toml, the only place that states it."""
    return str(project()["version"])


def left_to_do(
    version: str,
    *,
    changelog: str,
    fragments: Collection[str],
    security: str,
    tags: Collection[str],
    changed: Collection[str],
    readme: str,
    urls: Mapping[str, str],
) -> list[str]:
    """The steps that are left before this version can be published.

    >>> left_to_do("1.2.0", changelog="## 1.2.0 (2026-05-01)", fragments=[], tags=["v1.2.0"],
    ...            security="Contact: security@example.org", changed=[], readme="",
    ...            urls={"Source": "https://example.org"})
    []
    """
    found = []
    if NO_CONTACT in security:
        found.append(f"SECURITY.md says {NO_CONTACT!r}: name an address")
    if not urls:
        found.append("pyproject.toml names no address: [tool.hatch.metadata.hooks.custom]")
    if relative := RELATIVE_LINK.findall(readme):
        found.append(
            f"the README that is built has links that are not absolute: {', '.join(relative)}"
        )
    if fragments:
        found.append(
            f"changelog.d still holds {', '.join(sorted(fragments))}: run "
            f".venv/bin/towncrier build --version {version}"
        )
    if not re.search(rf"^## {re.escape(version)} \(", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no section '## {version} (DATE)'")
    if re.search(r"^## Unreleased$", changelog, re.MULTILINE):
        found.append("CHANGELOG.md has the heading 'Unreleased'")
    if changed:
        found.append(f"not committed: {', '.join(sorted(changed))}")
    if f"v{version}" not in tags:
        found.append(f"this commit has no tag: git tag --annotate v{version}")
    return found


def wrong_contents(
    wheel: Collection[str], archive: Collection[str], tracked: Collection[str]
) -> list[str]:
    """Return what a wheel or a source archive has too much or lacks.

    >>> wrong_contents(["limiters/a.py"], ["limiters/a.py", "PKG-INFO"], ["limiters/a.py"])
    []
    >>> wrong_contents(["limiters/a.pyc"], ["limiters/a.py"], ["limiters/a.py"])
    ['the wheel lacks limiters/a.py', 'the wheel has limiters/a.pyc']
    """
    packages = {name for name in tracked if name.startswith(("dispatcher/", "limiters/"))}
    packed = {name for name in wheel if ".dist-info/" not in name}
    compared = [
        ("the wheel lacks", packages - packed),
        ("the wheel has", packed - packages),
        ("the archive lacks", set(tracked) - set(archive)),
        ("the archive has", set(archive) - set(tracked) - {"PKG-INFO"}),
    ]
    return [f"{what} {name}" for what, names in compared for name in sorted(names)]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a program. It does not find the packages of this copy by PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def check_built(folder: Path) -> list[str]:
    """Return what is wrong with the wheel and the source archive in `folder`."""
    (wheel,) = folder.glob("*.whl")
    (archive,) = folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as zipped:
        in_wheel = zipped.namelist()
    with tarfile.open(archive) as packed:
        in_archive = [one.name.partition("/")[2] for one in packed.getmembers() if one.isfile()]
    found = wrong_contents(in_wheel, in_archive, run("git", "ls-files").splitlines())
    with tempfile.TemporaryDirectory(prefix="release-") as place:
        print(f"installing {wheel.name} into an empty environment ...", flush=True)
        environment = Path(place) / "environment"
        run(sys.executable, "-m", "venv", environment)
        pip = (environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", f"{wheel.resolve()}[{EXTRAS}]", cwd=Path(place))
        command = environment / "bin" / "dispatcher"
        if run(command, "--version", cwd=Path(place)).split() != ["dispatcher", version()]:
            found.append(f"dispatcher --version does not print {version()}")
        said = run(command, "demo", "--seconds", "2", "--report", "demo.html", cwd=Path(place))
        if "used of the limit" not in said or not (Path(place) / "demo.html").exists():
            found.append(f"the demo printed no summary or wrote no report:\n{said}")
    return found


def check_ready() -> list[str]:
    """Return what is left to be done in this copy."""
    return left_to_do(
        version(),
        changelog=(ROOT / "CHANGELOG.md").read_text(),
        fragments=[p.name for p in (ROOT / "changelog.d").iterdir() if p.name != "README.md"],
        security=(ROOT / "SECURITY.md").read_text(),
        tags=run("git", "tag", "--points-at", "HEAD").split(),
        changed=run("git", "status", "--porcelain").splitlines(),
        readme=hatch_build.readme((ROOT / "README.md").read_text(), address(), version()),
        urls=hatch_build.urls(address()),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.release")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("dist", nargs="?", type=Path, help="the folder of what was built")
    what.add_argument("--ready", action="store_true", help="whether it can be published")
    chosen = parser.parse_args(arguments)
    found = check_ready() if chosen.ready else check_built(chosen.dist)
    for one in found:
        print(f"wrong: {one}")
    if chosen.dist:
        print(
            f"version {version()}: {'FAILED' if found else 'the wheel installs and the demo runs'}"
        )
        for one in check_ready():
            print(f"before it is published: {one}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
