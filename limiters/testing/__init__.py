"""Tools for users' tests: a clock that a test turns, and a cluster in virtual time."""

from limiters.testing._instance import Call, SimulatedInstance
from limiters.testing._server import SimulatedServer
from limiters.testing.clock import ManualClock
from limiters.testing.cluster import SimulatedCluster
from limiters.testing.network import Network
from limiters.testing.work import Backlog, Dear, Estimated, MixedCalls, OnAndOff, Trickle, Work

__all__ = [
    "Backlog",
    "Call",
    "Dear",
    "Estimated",
    "ManualClock",
    "MixedCalls",
    "Network",
    "OnAndOff",
    "SimulatedCluster",
    "SimulatedInstance",
    "SimulatedServer",
    "Trickle",
    "Work",
]
