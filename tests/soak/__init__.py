"""Everything at once, end to end, in all kinds of trouble. `make soak`, or `python -m tests.soak`.

A stream of measurements, of devices that register themselves late, is sent twice by Spark: in
order for each device, and in batches by event time. Reminders fall due on a Timeline, and
workers send them. All share one limit, and write to one store that answers 429 above it.
Meanwhile workers, executors and drivers are killed, Redis is restarted, and Prometheus watches.
"""
