"""`dispatcher timeline`: read and repair a topic without code."""
