"""Everything together, end to end, with all kinds of trouble: `make soak`, or `python -m
tests.soak`.

Spark sends a stream of measurements of devices, which register themselves late, in two ways: in
order for each device, and in batches by event time. Reminders become due on a Timeline, and workers
send them. All share one limit, and write to one store, which answers 429 above it. Meanwhile
workers, executors and drivers are killed, Redis is restarted, and Prometheus watches.
"""
