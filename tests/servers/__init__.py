"""Real Redis servers to test against: single, Sentinel, Cluster, TLS, and a bad network."""

from __future__ import annotations

from tests.waiting import until

wait_until = until
