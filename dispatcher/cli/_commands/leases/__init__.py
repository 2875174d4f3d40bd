"""`dispatcher leases`: which instance holds how much of a limit."""
