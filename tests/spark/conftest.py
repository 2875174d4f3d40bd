"""One Spark for all tests of a process: starting it takes seconds."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.integration.conftest import _one_redis, connect, shared_redis
from tests.spark.sessions import started

__all__ = ["_one_redis", "connect", "shared_redis"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start Spark with two cores, few partitions, and Python workers of this interpreter."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        # Sockets to the JVM that pyspark leaves to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        session = started()
        yield session
        session.stop()


@pytest.fixture(autouse=True)
def _sockets_of_pyspark() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
