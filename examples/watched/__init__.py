"""A producer and a handler for workers to watch; see grafana/compose.yaml."""
