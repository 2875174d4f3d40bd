"""The engine of a Batcher: the work that waits, the work that runs, and when to look again."""
