"""The packages run from a zip: Spark and others import them from one."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = {"dispatcher.spark": ("pandas", "pyarrow", "pyspark")}
"""Packages that cannot be imported without others."""

PROGRAM = """
import pkgutil, sys
from importlib import import_module

import dispatcher, limiters

loaded = set()
for package in (dispatcher, limiters):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        left_out = any(f"{found.name}.".startswith(f"{one}.") for one in sys.argv[1:])
        if not left_out and not found.name.endswith("__main__"):
            module = import_module(found.name)
            assert ".zip" in module.__file__, module.__file__
            loaded.add(module)

from limiters._redis.script import Script

scripts = [one for module in loaded for one in vars(module).values() if isinstance(one, Script)]
sys.stdout.write("\\n".join(script.source for script in scripts))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("zip") / "packages.zip"
    with zipfile.ZipFile(place, "w") as archive:
        for package in ("dispatcher", "limiters"):
            for path in sorted((ROOT / package).rglob("*")):
                if path.suffix in {".py", ".lua"}:
                    archive.write(path, path.relative_to(ROOT))
    return place


def test_all_modules_are_imported_from_a_zip_and_all_scripts_read_from_it(archive: Path) -> None:
    left_out = [one for one, needed in NEEDED.items() if not all(map(find_spec, needed))]
    done = subprocess.run(
        # Without .pth files: an editable installation would be found by one.
        [sys.executable, "-S", "-c", PROGRAM, *left_out],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(archive), sysconfig.get_path("purelib")])},
        cwd=archive.parent,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    folders = [ROOT / one.replace(".", "/") for one in left_out]
    scripts = [
        one
        for one in sorted([*ROOT.glob("dispatcher/**/*.lua"), *ROOT.glob("limiters/**/*.lua")])
        if not any(one.is_relative_to(folder) for folder in folders)
    ]
    assert len(scripts) > 30
    assert [one.name for one in scripts if one.read_text() not in done.stdout] == []
