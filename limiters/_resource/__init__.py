"""What all limiters here have in common."""
