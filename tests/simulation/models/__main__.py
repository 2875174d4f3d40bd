"""python -m tests.simulation.models: what each rule of the model of settlement is good for."""

from __future__ import annotations

from tests.simulation.models.settlement import RULES, SEEDS, over, worst_beside_flight


def main() -> None:
    """Storms with all rules, and without each of them."""
    print("with all rules:", over(range(SEEDS)), flush=True)
    print(f"in addition to the calls in flight: {worst_beside_flight():.3f}", flush=True)
    for rule in sorted(RULES):
        found, beside = over(range(SEEDS), RULES - {rule}), worst_beside_flight(RULES - {rule})
        worst = max(found.values(), default=0.0)
        print(f"without {rule!r}: {len(found)} over, worst {worst:.3f}; {beside:.3f}", flush=True)


if __name__ == "__main__":
    main()
