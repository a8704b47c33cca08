"""What a verifier says of a rollout."""

import math
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from pydantic import BaseModel

from rollgym.records import VerifierError


class Verdict:
    """What a verifier says of a rollout.

    `success` may be left to the reward (at least the collection's success threshold). Any further
    keyword becomes a field of the output row.
    """

    __slots__ = ("fields", "reward", "success")

    def __init__(self, reward: float, *, success: bool | None = None, **fields: Any) -> None:
        self.reward = reward
        self.success = success
        self.fields: dict[str, Any] = fields

    def as_fields(self) -> dict[str, Any]:
        """What it adds to the row, as plain JSON values.

        Raises VerifierError when the reward is no finite number, TypeError for what is no JSON.
        """
        reward = self.reward
        if isinstance(reward, bool) or not isinstance(reward, int | float):
            raise VerifierError(f"the verifier gave {reward!r} as reward, which is no number")
        if not math.isfinite(reward):
            raise VerifierError(f"the verifier gave {reward} as reward, which is not finite")
        success = {} if self.success is None else {"success": self.success}
        return _plain({**self.fields, "reward": float(reward), **success})


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """With pydantic models as what they hold. Raises TypeError for what is no JSON."""
    return cast("dict[str, Any]", msgspec.to_builtins(fields, enc_hook=_hold))


def _hold(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"the verdict holds a {type(value).__name__}, which is no JSON")
