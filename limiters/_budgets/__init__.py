"""How much may be spent now: the exact ledger of a limit, and what is spent together. Pure."""
