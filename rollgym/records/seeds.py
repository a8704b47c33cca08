"""Random seeds derived from the run's one seed.

Every random decision takes its seed from what it is about, never from when it happens, so a
resumed, sharded or reordered run decides as the uninterrupted one would have.
"""

from hashlib import blake2b


def derive_seed(run_seed: int, *about: int | str) -> int:
    """A seed of 63 bits for one purpose, e.g. `derive_seed(seed, "retry", task, repeat, 2)`."""
    name = "\0".join(map(str, (run_seed, *about)))
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 1
