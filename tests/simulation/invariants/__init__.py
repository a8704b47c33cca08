"""The promises, checked from outside on the story of a simulation.

One module for each: `lasting` (nothing finished is lost), `truth` (a failure is never a reward, and
the count is right), `bounds` (everything ends and stays small), `resuming` (identity and history),
`decisions` (same seed, same order), `metrics` (every way to count agrees), `refilling` (groups heal
within their budget) and `merging`.
"""

from tests.simulation.invariants.bounds import check_bounds
from tests.simulation.invariants.decisions import check_same_decisions, check_seeds
from tests.simulation.invariants.lasting import check_lasting
from tests.simulation.invariants.merging import check_merging
from tests.simulation.invariants.metrics import check_metrics
from tests.simulation.invariants.refilling import check_refilling
from tests.simulation.invariants.resuming import check_resuming
from tests.simulation.invariants.surviving import check_surviving
from tests.simulation.invariants.truth import check_truth
from tests.simulation.invariants.violation import Violation
from tests.simulation.story import Story

__all__ = ["Violation", "check", "check_same_decisions"]


def check(story: Story) -> None:
    """Raises Violation for the first promise that does not hold."""
    check_surviving(story)
    check_lasting(story)
    check_truth(story)
    check_bounds(story)
    check_resuming(story)
    check_refilling(story)
    check_seeds(story)
    check_metrics(story)
    check_merging(story)
