"""`dispatcher leases`: who holds how much of a limit."""
