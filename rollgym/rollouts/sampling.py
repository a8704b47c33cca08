"""The sampling seeds that a run gives its repeats, where it was asked to."""

from rollgym.store import Manifest

ADD_SEED = "num_repeats_add_seed"
"""The name that this goes by in the configuration of a run."""


def first_seed_of(run: Manifest) -> int | None:
    """The seed of the first repeat of every task; each further one has one more."""
    return run.identity.seed if run.identity.config.get(ADD_SEED) else None
