"""Reminders that are sent when they are due: a store with a limit, a handler, a configuration."""
