"""The whole cluster, read from Redis."""
