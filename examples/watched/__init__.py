"""A producer and a handler, for workers to look at; see grafana/compose.yaml."""
