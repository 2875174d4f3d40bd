"""What became of a micro-batch, for the driver."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from limiters._costs import AnyCost, Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One micro-batch that has ended. `query_id`, `run_id` and `batch_id` are those of Spark's
    StreamingQueryProgress, empty where Spark does not tell them (Connect)."""

    query: str
    query_id: str
    run_id: str
    batch_id: int
    rows: int
    batches: int
    """How many the handler took."""
    calls: int
    """How often the handler was called, attempts that failed included."""
    sent_rows: int
    replayed_rows: int
    """Left out, since they were acknowledged before."""
    late_rows: int
    rejected_rows: int
    """Given to dead letters."""
    held_rows: int
    """Which wait in the gate for the registration of their subject."""
    retries: int
    throttled: int
    cost: AnyCost
    """Of all attempts: a number, or a mapping where the limit has several dimensions."""
    waited: float
    """The seconds that batches waited for capacity and for their turn, on average."""
    longest_wait: float
    """The seconds that one batch waited at most, also if its rows were rejected in the end."""
    handling: float
    """The seconds that a call of the handler took, on average."""
    seconds: float
    """The whole micro-batch took so long."""
    claiming: float
    """Of that, until nobody else could send any more."""
    used: float | None
    """Which part of the shared capacity it used, while it sent: of several dimensions, in the one
    of which that was most."""

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
        """All of it, for a log or JSON."""
        told = asdict(self)
        told["cost"] = dict(self.cost) if isinstance(self.cost, Costs) else self.cost
        return told
