"""The parts of a SharedResource: its thread, its arguments, its events, its grants."""
