"""`dispatcher limit`: the terms of a limit that many instances share."""
