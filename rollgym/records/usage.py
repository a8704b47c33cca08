"""What a rollout spent on models."""

from typing import Self

import msgspec


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts. `cached_tokens` is part of the input, `reasoning_tokens` of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Self) -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


NO_USAGE = Usage()
