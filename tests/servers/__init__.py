"""Real Redis servers to test against: single, Sentinel, Cluster, TLS, and a bad network."""
