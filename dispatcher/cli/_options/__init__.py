"""Options, and where their values come from."""
