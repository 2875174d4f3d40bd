"""`dispatcher exporter`: shows the whole cluster to Prometheus, from Redis alone."""
