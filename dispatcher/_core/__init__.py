"""The engine behind a Batcher: what waits, what is under way, and when to look again."""
