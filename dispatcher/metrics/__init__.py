"""Metrics for Prometheus. Nothing is started, opened or registered by importing this."""

from dispatcher.errors import DispatcherError


class MetricsNotInstalledError(DispatcherError, ImportError):
    """The package prometheus-client is missing."""


try:
    import prometheus_client as _  # noqa: F401
except ImportError as _error:
    raise MetricsNotInstalledError(
        "metrics need the package prometheus-client: pip install 'batch-dispatcher[metrics]'"
    ) from _error

# The kinds of things that there are register themselves.
from dispatcher.metrics._kinds import batchers as _batchers  # noqa: F401
from dispatcher.metrics._kinds import learned as _learned  # noqa: F401
from dispatcher.metrics._kinds import leaves as _leaves  # noqa: F401
from dispatcher.metrics._kinds import limits as _limits  # noqa: F401
from dispatcher.metrics.instrumenting import Instrumented, instrument
from dispatcher.metrics.parts import Options, Part, instrumentable, parts_of
from dispatcher.metrics.readings import Reading
from dispatcher.metrics.serving import MetricsServer, MetricsServerError, serve

__all__ = [
    "Instrumented",
    "MetricsNotInstalledError",
    "MetricsServer",
    "MetricsServerError",
    "Options",
    "Part",
    "Reading",
    "instrument",
    "instrumentable",
    "parts_of",
    "serve",
]
