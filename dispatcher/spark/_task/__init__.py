"""The code that runs in a Python worker of Spark: it sends one part of a micro-batch."""
