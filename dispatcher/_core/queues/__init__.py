"""What waits, in which order, and how it is cut into batches."""
