"""Holdings, spending and counters of a limiter, as plain values."""
