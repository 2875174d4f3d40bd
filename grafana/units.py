"""Units: how Grafana writes numbers. Pure.

`count:` is Grafana's prefix for a custom unit: 12,300 of `count:rows` is "12.3 K rows".
"""

from __future__ import annotations

COST_NAME = "cost"
"""The unit of cost, such as RU: the datastore's own name for it."""

COST = f"count:{COST_NAME}"
COST_PER_PERIOD = f"count:{COST_NAME}/period"
COST_RATE = f"count:{COST_NAME}/s"

SECONDS = "s"
SHARE = "percentunit"
WORD = "none"
"""The unit of values that are shown as words."""

ALERTS = "count:alerts"
BATCHES = "count:batches"
BATCH_RATE = "count:batches/s"
CALLS = "count:calls"
CONSUMERS = "count:consumers"
ENTITIES = "count:entities"
EVENT_RATE = "count:/s"
"""The unit of several kinds of events in one panel, each in a second."""
EXPORTERS = "count:exporters"
INSTANCES = "count:instances"
MEASUREMENTS = "count:measurements"
MESSAGES = "count:messages"
MESSAGE_RATE = "count:messages/s"
OPERATIONS = "count:operations"
OPERATION_RATE = "count:operations/s"
PARTITIONS = "count:partitions"
PAUSED = "count:paused"
PAUSE_RATE = "count:pauses/s"
PERMIT_RATE = "count:permits/s"
PLACE = "count:in the queue"
REFUSALS = "count:refusals"
REQUEST_RATE = "count:requests/s"
ROWS = "count:rows"
ROW_RATE = "count:rows/s"
UNREADABLE = "count:unreadable"
