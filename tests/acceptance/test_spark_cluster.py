"""Laws K1, K3, K4 and K7 on a standalone cluster: a part of what `make cluster` plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.faults import Fault
from tests.cluster.playing import play
from tests.cluster.suite import PART
from tests.servers.spark_cluster import SparkCluster

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark")) as started:
        yield started


@pytest.mark.parametrize("fault", PART, ids=lambda fault: fault.name)
def test_nothing_is_lost_and_order_is_kept_on_a_cluster(
    fault: Fault, cluster: SparkCluster, tmp_path: Path
) -> None:
    played = play(fault, cluster, tmp_path)

    assert played.wrong == (), played
