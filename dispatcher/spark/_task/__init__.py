"""What runs in a Python worker of Spark: one part of a micro-batch."""
