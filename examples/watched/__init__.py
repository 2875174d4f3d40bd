"""Work to look at: a producer of messages, and a handler for the workers; see grafana/compose.yaml."""
