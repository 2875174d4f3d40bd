"""The gate of one process."""
