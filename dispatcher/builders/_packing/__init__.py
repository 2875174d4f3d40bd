"""Cut the measurements of one lane into batches."""
