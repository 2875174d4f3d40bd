"""All that `make cluster` plays, and the part of it that `make test` does."""

from __future__ import annotations

import pyspark

from tests.cluster.connecting import CONNECTED
from tests.cluster.faults import FAULTS
from tests.cluster.shipping import SHIPPED

CONNECT = not pyspark.__version__.startswith("3.")
"""Whether pyspark brings a server for Spark Connect: that for Spark 3.5 is not at PyPI."""

ALL = (*FAULTS, *SHIPPED, *(CONNECTED if CONNECT else ()))
PART = [one for one in ALL if one.name in ("executors killed", "executors killed, packed")]
