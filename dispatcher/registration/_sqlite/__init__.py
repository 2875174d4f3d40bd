"""A file of entities: what is in it, whether it is whole, and what is left of one that is not."""
