"""What a gate is given, what it gives back, and how both are written. Pure."""
