"""`dispatcher worker`: handles what is due on a timeline."""
