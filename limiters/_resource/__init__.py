"""The base of all limiters of this package."""
