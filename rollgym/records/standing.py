"""Whether the end that a record tells of is the end that counts."""

from enum import Enum


class Standing(Enum):
    """What a record is to its rollout.

    A resumed run may run failed and omitted rollouts again. The old end counts until a new one
    takes its place:

    - `CURRENT`: it is the rollout's end (or, where it was not final, a part of its history).
    - `REOPENED`: it still is the end, but the rollout is being run again.
    - `SUPERSEDED`: another record is the rollout's end. This one was an attempt, and only that.
    """

    CURRENT = "current"
    REOPENED = "reopened"
    SUPERSEDED = "superseded"

    @classmethod
    def of(cls, *, stands: bool, reopened: bool) -> "Standing":
        if not stands:
            return cls.SUPERSEDED
        return cls.REOPENED if reopened else cls.CURRENT
