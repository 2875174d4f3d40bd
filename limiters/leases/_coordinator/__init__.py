"""The coordinator of a shared limit: the reference for the scripts in `limiters/leases/lua`.

Both answer the same requests alike, bit for bit; a test compares them. `coordinator` serves a
request, `certainty` decides when it may grant and who may claim, `shares` divides the limit,
`permits` orders those who wait for a permit, `state` is what is stored.
"""

from limiters.leases._coordinator.coordinator import Coordinator

__all__ = ["Coordinator"]
