"""Reads what is on a topic, and changes nothing."""
