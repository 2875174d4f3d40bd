"""Dashboards and alerts for Grafana and Prometheus, written as code: `make dashboards`."""
