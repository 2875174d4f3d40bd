"""Input and output of a gate, and how both are encoded. Pure."""
