"""How things are put into words. Pure."""
