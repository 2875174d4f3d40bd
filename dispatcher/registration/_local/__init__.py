"""The gate of a single process."""
