"""What happens to a batch: it starts, its callback runs, it ends."""
