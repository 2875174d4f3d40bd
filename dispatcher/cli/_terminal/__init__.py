"""How things are shown, and asked."""
