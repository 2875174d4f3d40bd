"""The ledger of a query in Redis: which tasks may send for it, and which rows are acknowledged."""
