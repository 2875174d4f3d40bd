"""`dispatcher worker`: handle the due messages of a topic."""
