"""The open event-time batches: when they close, and how they are saved."""
