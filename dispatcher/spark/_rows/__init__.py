"""From record batches to rows, and from rows to the batches that are sent."""
