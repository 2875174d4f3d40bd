"""The variable that all dashboards have."""

from grafana.questions import Choice

CLUSTER = Choice("cluster", "Cluster", "dispatcher_exporter_read_seconds", several=True)
"""One of several exporters, with all that belongs to it; all, if Prometheus has no such label."""
