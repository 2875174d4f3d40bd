"""`dispatcher timeline`: what an operator sees of a topic and does to it, without code."""
