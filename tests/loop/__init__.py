"""The whole suite again and again, in a clone of its own: which tests fail, and how often."""
