"""All faults that `make cluster` plays, and the few that `make test` plays."""

from __future__ import annotations

import pyspark

from tests.cluster.connecting import CONNECTED
from tests.cluster.faults import FAULTS
from tests.cluster.shipping import SHIPPED

CONNECT = not pyspark.__version__.startswith("3.")
"""Whether pyspark has a server for Spark Connect: that for Spark 3.5 is not on PyPI."""

ALL = (*FAULTS, *SHIPPED, *(CONNECTED if CONNECT else ()))
PART = [one for one in ALL if one.name in ("executors killed", "executors killed, packed")]
