"""What is known of a query in Redis: who may send for it, and what was acknowledged."""
