"""A SubjectSink on a standalone cluster of Spark, through faults of all kinds; see `__main__`."""
