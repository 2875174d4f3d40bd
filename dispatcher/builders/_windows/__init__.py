"""Which event-time batches are open, when they close, and how they are saved."""
