"""Words for amounts, times and states. Pure."""
