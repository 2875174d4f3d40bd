"""Connections to Redis: URLs, clients, scripts, and errors in words."""
