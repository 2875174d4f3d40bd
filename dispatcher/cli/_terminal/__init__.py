"""Output to terminals, and questions."""
