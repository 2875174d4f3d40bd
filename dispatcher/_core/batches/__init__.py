"""How a batch starts, how its callback runs, and how it ends."""
