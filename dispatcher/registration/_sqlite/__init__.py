"""A file of entities: its content, its integrity, and what can be saved of a damaged one."""
