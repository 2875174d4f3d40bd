"""The names that `from dispatcher.spark import *` imports, also if Spark has no data sources in
Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORT = "from dispatcher.spark import *; print(SubjectSink, 'DispatcherDataSource' in dir())"


@pytest.mark.parametrize(
    ("before", "has_data_sources"),
    [
        pytest.param("", True, marks=pytest.mark.spark4),
        ("import sys; sys.modules['pyspark.sql.datasource'] = None", False),
    ],
)
def test_all_names_can_be_imported_together(before: str, has_data_sources: bool) -> None:
    code = f"{before}\n{IMPORT}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == str(has_data_sources)
