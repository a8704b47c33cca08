"""How long a policy pretends to think, for benchmarks that need the latency of a real model.

`fixed:0.2` is always the same; `lognormal:2.0` has this mean, and `lognormal:2.0:0.8` also this
sigma (of the logarithm). How long a reply takes depends on the policy's seed and on that of the
request, never on when it was asked: a benchmark that runs again waits the same times.
"""

import math
from random import Random
from typing import Literal

import msgspec

from rollgym.records import derive_seed

DEFAULT_SIGMA = 0.5
LONGEST = 120.0
WIDEST_SIGMA = 3.0


class Latency(msgspec.Struct, frozen=True):
    """Seconds until a reply; `mean` 0 is at once."""

    kind: Literal["fixed", "lognormal"] = "fixed"
    mean: float = 0.0
    sigma: float = DEFAULT_SIGMA

    @classmethod
    def read(cls, text: str) -> "Latency":
        """As it is written on the command line. Raises ValueError."""
        match text.split(":"):
            case ["fixed", mean]:
                return cls("fixed", _number(mean, LONGEST))
            case ["lognormal", mean]:
                return cls("lognormal", _number(mean, LONGEST))
            case ["lognormal", mean, sigma]:
                return cls("lognormal", _number(mean, LONGEST), _number(sigma, WIDEST_SIGMA))
        raise ValueError(f"{text!r} is no latency: write fixed:0.2, lognormal:2.0 or lognormal:2:1")

    def seconds(self, seed: int, *about: int | str) -> float:
        """For one reply; at most LONGEST."""
        if self.kind == "fixed" or self.mean == 0:
            return self.mean
        draw = Random(derive_seed(seed, "latency", *about))  # noqa: S311 - no secret
        mu = math.log(self.mean) - self.sigma**2 / 2
        return min(draw.lognormvariate(mu, self.sigma), LONGEST)


def _number(text: str, highest: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= highest:
        raise ValueError(f"{text!r} is no number from 0 to {highest:g}")
    return number
