"""The gate that many processes share, as one of them sees it."""
