"""The recipes of docs/spark_shipping.md, for executors whose Python does not have this project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pyspark

from tests.cluster.faults import Fault, NotSeenError
from tests.cluster.stage import Stage
from tests.processes.noted import lines

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "processes" / "shipped.py"
PYTHON = str(Path(sys.executable).resolve())
"""The Python of executors, which is not that of this environment."""
OURS = ("dispatcher", "limiters", "batch_dispatcher")
BROUGHT = (*OURS, "redis", "tenacity")
"""The packages that the zip contains."""


def as_a_zip(stage: Stage) -> None:
    """`--py-files`, on a cluster whose Pythons have the packages that Spark needs, and none of this
    project."""
    stage.scene.more(2)
    done = with_py_files(stage, archive := zipped(stage.folder), others(stage.folder))
    assert done.returncode == 0, done.stdout[-2000:]
    came_from(stage, f"/{archive.name}/")


def as_a_wheel_first(stage: Stage) -> None:
    """A wheel reaches the driver only, even if all that it needs is installed. The query fails, and
    a zip finishes the work that it has begun."""
    stage.scene.more(2)
    archive, site = zipped(stage.folder), others(stage.folder, but=OURS)
    (built,) = stage.folder.glob("*.whl")
    done = with_py_files(stage, built, site)
    if "No module named 'dispatcher'" not in done.stdout or stage.notes.all:
        raise NotSeenError(f"the wheel has not failed as it should: {done.stdout[-2000:]}")
    done = with_py_files(stage, archive, site)
    assert done.returncode == 0, done.stdout[-2000:]
    came_from(stage, f"/{archive.name}/")


def as_a_packed_environment(stage: Stage) -> None:
    """`--archives`, on a cluster whose Pythons have no packages at all."""
    stage.scene.more(2)
    place = stage.folder / "environment"
    archive = packed(place)
    done = submit(
        stage,
        *("--archives", f"{archive}#shipped"),
        environment={
            "PYSPARK_PYTHON": "./shipped/bin/python",
            "PYSPARK_DRIVER_PYTHON": str(place / "bin" / "python"),
        },
    )
    assert done.returncode == 0, done.stdout[-2000:]
    came_from(stage, "/shipped/lib/")


def zipped(folder: Path) -> Path:
    """Return a zip of this project and of the packages that it needs and clusters do not have."""
    place = folder / "packages"
    pip("install", "--no-compile", "--target", place, f"{wheel(folder)}[redis]")
    return Path(shutil.make_archive(str(place), "zip", place))


def packed(place: Path) -> Path:
    """Make an environment at `place`. Return an archive of it with everything that executors need
    except Spark, which has its own packages."""
    done = subprocess.run([PYTHON, "-m", "venv", "--without-pip", place], check=False)
    assert done.returncode == 0
    brought = [f"{name}=={version(name)}" for name in ("pandas", "pyarrow", "numpy")]
    python = place / "bin" / "python"
    pip("--python", python, "install", f"{wheel(place.parent)}[redis]", *brought)
    archive = place.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(place, ".")
    return archive


def wheel(folder: Path) -> Path:
    """Return a wheel of this project."""
    pip("wheel", ROOT, "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    (built,) = folder.glob("*.whl")
    return built


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def others(folder: Path, *, but: tuple[str, ...] = BROUGHT) -> Path:
    """Return a folder with all packages of this environment except some. Files that install
    something from elsewhere have no effect there, since only PYTHONPATH names the folder."""
    site = folder / "site"
    site.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith(but):
            (site / package.name).symlink_to(package)
    return site


def with_py_files(stage: Stage, archive: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Run the program with a driver and executors that have the packages of `site` and
    `archive`."""
    return submit(
        stage,
        *("--py-files", archive),
        *("--conf", f"spark.executorEnv.PYTHONPATH={site}"),
        environment={"PYSPARK_PYTHON": PYTHON, "PYTHONPATH": str(site)},
    )


def submit(
    stage: Stage, *options: str | Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Send all rows by `spark-submit`."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        **stage.setting.conf,
    }
    command = [
        *(Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", stage.cluster.url),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        *options,
        *(PROGRAM, json.dumps(arguments_of(stage))),
    ]
    inherited = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    return subprocess.run(
        command,
        env={**inherited, **environment},
        cwd=stage.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def arguments_of(stage: Stage) -> dict[str, str]:
    """Return the arguments of the program."""
    setting = stage.setting
    return {
        "redis": setting.redis,
        "source": setting.source,
        "checkpoint": setting.checkpoint,
        "log": setting.log,
        "modules": str(stage.folder / "modules"),
    }


def came_from(stage: Stage, place: str) -> None:
    """Check that executors have imported the shipped packages, and not those at the place of their
    making."""
    modules = set(lines(stage.folder / "modules"))
    shipped = {one for one in modules if place in one and not one.startswith(str(stage.folder))}
    if not modules or modules != shipped:
        raise NotSeenError(f"executors have imported {modules or 'nothing'}, not from {place}")


SHIPPED = (
    Fault("shipped as a zip", as_a_zip),
    Fault("shipped as a wheel, then as a zip", as_a_wheel_first),
    Fault("shipped as a packed environment", as_a_packed_environment),
)
