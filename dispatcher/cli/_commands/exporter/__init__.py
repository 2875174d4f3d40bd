"""`dispatcher exporter`: metrics of the whole cluster for Prometheus, from Redis alone."""
