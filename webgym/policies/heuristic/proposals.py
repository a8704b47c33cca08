"""A proposal: something that could be done next, and how promising it is."""

import msgspec

from webgym.policies.heuristic.intents import Intent


class Proposal(msgspec.Struct, frozen=True):
    """`score` is about 1 where the task names the very thing, 0 where nothing speaks for it."""

    score: float
    intent: Intent
    leads_to: str = ""
    """The address of a link."""
