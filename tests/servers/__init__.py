"""Real Redis servers to test against: single, Sentinel, Cluster, TLS, and a bad network."""

from tests.servers import pypi_java

pypi_java.provide()
