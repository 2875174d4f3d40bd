"""The results of a micro-batch, for the driver."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from limiters._costs import AnyCost, Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One micro-batch that has ended. `query_id`, `run_id` and `batch_id` are those of Spark's
    StreamingQueryProgress; the first two are empty where Spark does not provide them (Connect)."""

    query: str
    query_id: str
    run_id: str
    batch_id: int
    rows: int
    batches: int
    """The number of batches that the handler took."""
    calls: int
    """The number of calls of the handler, including attempts that failed."""
    sent_rows: int
    replayed_rows: int
    """Rows that were left out, since they were acknowledged before."""
    late_rows: int
    rejected_rows: int
    """Rows that were given to dead letters."""
    held_rows: int
    """Rows that wait in the gate for the registration of their subject."""
    retries: int
    throttled: int
    cost: AnyCost
    """The cost of all attempts: a number, or a mapping where the limit has several dimensions."""
    waited: float
    """The average time in seconds that a batch waited for capacity and for its turn."""
    longest_wait: float
    """The longest time in seconds that a batch waited, also if its rows were rejected later."""
    handling: float
    """The average time in seconds of a call of the handler."""
    seconds: float
    """The time in seconds of the whole micro-batch."""
    claiming: float
    """The part of `seconds` before this run could send: it waited until no other run could."""
    used: float | None
    """The part of the shared capacity that it used while it sent: the largest part over all
    dimensions."""

    def __str__(self) -> str:
        used = "" if self.used is None else f", {self.used:.1%} of the capacity"
        return (
            f"{self.query} #{self.batch_id}: {self.sent_rows:,} of {self.rows:,} rows in "
            f"{self.batches:,} batches, {self.calls:,} calls, {self.replayed_rows:,} replayed, "
            f"{self.rejected_rows:,} rejected, {self.held_rows:,} held, {self.late_rows:,} late, "
            f"in {self.seconds:.2f} s; a batch waited {self.waited:.3f} s, a call took "
            f"{self.handling:.3f} s{used}"
        )

    def as_dict(self) -> dict[str, object]:
        """Return all fields, for a log or JSON."""
        fields = asdict(self)
        fields["cost"] = dict(self.cost) if isinstance(self.cost, Costs) else self.cost
        return fields
