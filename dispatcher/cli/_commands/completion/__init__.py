"""`dispatcher completion`: scripts with which shells complete commands and options."""
