"""The waiting operations, their order, and how they are cut into batches."""
