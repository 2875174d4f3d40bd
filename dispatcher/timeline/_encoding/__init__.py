"""Ids, bodies, times and keys as they are stored. Pure."""
