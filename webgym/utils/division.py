"""Dividing tasks and browsers over ranks by weight, the same on every rank.

Counts are divided by largest remainder: everybody gets the whole part of their exact share, and
what is left goes, one each, to those whose shares lost most by that; of equals the first gets it.
Arithmetic is exact, so no rank can come to another result than its peers.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

Weight = int | float | Fraction


def divide(total: int, weights: Sequence[Weight]) -> tuple[int, ...]:
    """A part of `total` for each weight. The parts add up; each is within 1 of its exact share.

    Raises ValueError for a negative total, and for weights of which none is above 0.
    """
    if total < 0:
        raise ValueError(f"{total} cannot be divided: it is below 0")
    exact = [_exact(weight) for weight in weights]
    whole = sum(exact)
    if whole == 0:
        raise ValueError("nothing can be divided by weights of which none is above 0")
    shares = [total * weight / whole for weight in exact]
    parts = [math.floor(share) for share in shares]
    by_loss = sorted(range(len(parts)), key=lambda place: parts[place] - shares[place])
    for place in by_loss[: total - sum(parts)]:
        parts[place] += 1
    return tuple(parts)


def deal(count: int, weights: Sequence[Weight]) -> Iterator[int]:
    """Who gets each of `count` things that stand in a row: as many for each as `divide` says.

    Everybody's things are spread evenly over the row, so that where the row begins with the hard
    ones nobody gets them all. Raises ValueError as `divide` does.
    """
    hands = [_spread(owner, size) for owner, size in enumerate(divide(count, weights))]
    return (owner for _, owner in heapq.merge(*hands))


def _spread(owner: int, size: int) -> Iterator[tuple[float, int]]:
    """Where in the row, from 0 to 1, the things of one owner would stand best."""
    return (((2 * number + 1) / (2 * size), owner) for number in range(size))


def _exact(weight: Weight) -> Fraction:
    """0.1 means a tenth, not the binary number beside it."""
    if not math.isfinite(weight) or weight < 0:
        raise ValueError(f"{weight} is no weight: a weight is a number from 0 on")
    return Fraction(repr(weight)) if isinstance(weight, float) else Fraction(weight)
