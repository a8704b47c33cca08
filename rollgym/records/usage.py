"""What calls of models consume: tokens, time and money.

An outcome has one `ModelUse` for each model that its attempt called, judges included. Costs come
from a price table that the user gives, and are integers (picodollars, 1e-12 of a dollar), so that
their sums are exact and do not depend on the order.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

import msgspec

DOLLAR = 10**12
"""Picodollars in a dollar."""
_SHOWN_WAIT = 0.001
"""Seconds per call from which the wait for a slot is worth a word."""
_PER_TOKEN = DOLLAR // 10**6
"""Picodollars per token for a price of one dollar per million tokens."""
_MICROSECONDS = 1e6
_LONGEST = 1e9


def to_microsecond(seconds: float) -> float:
    """Rounded to a microsecond, in a third of the time that `round` needs to be exact."""
    if -_LONGEST < seconds < _LONGEST:
        return int(seconds * _MICROSECONDS + 0.5) / _MICROSECONDS
    return seconds


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

    def __str__(self) -> str:
        cached = f" ({self.cached_tokens:,} cached)" if self.cached_tokens else ""
        reasoning = f" ({self.reasoning_tokens:,} reasoning)" if self.reasoning_tokens else ""
        return f"{self.input_tokens:,} in{cached}, {self.output_tokens:,} out{reasoning}"

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


NO_USAGE = Usage()


class ModelRole(StrEnum):
    """What a model was called for."""

    POLICY = "policy"
    JUDGE = "judge"


class ModelUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The calls of one model in one attempt, or in a whole run.

    `seconds` is the time of all calls together. `queued` is the part of it that they waited for a
    slot at an endpoint. `first_token` is the time until the first token, over the `timed` calls
    whose server reported it. `cost` is in picodollars; None without a price.
    """

    model: str
    role: ModelRole = ModelRole.POLICY
    calls: int = 0
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    queued: float = 0.0
    first_token: float = 0.0
    timed: int = 0
    cost: int | None = None

    @classmethod
    def one(
        cls,
        model: str,
        role: ModelRole,
        usage: Usage,
        *,
        seconds: float,
        queued: float,
        first_token: float | None,
    ) -> "ModelUse":
        """One call. `first_token` is None where the server does not report it."""
        timed = first_token is not None
        return cls(
            model,
            role,
            1,
            usage,
            to_microsecond(seconds),
            queued and to_microsecond(queued),
            to_microsecond(first_token) if first_token else 0.0,
            timed=int(timed),
        )

    @property
    def name(self) -> str:
        """The role and the model, for people."""
        return f"{self.role} {self.model}".rstrip()

    def describe(self) -> str:
        """The calls in one line: their number, tokens and cost, and the time of one call."""
        parts = [f"{self.calls:,} call{'s' * (self.calls != 1)}"] if self.calls else []
        parts.append(str(self.usage))
        if self.cost is not None:
            parts.append(f"${self.cost / DOLLAR:,.4f}")
        if self.calls and self.seconds:
            parts.append(f"{self.seconds / self.calls:.3g} s per call")
            if self.queued / self.calls >= _SHOWN_WAIT:
                parts.append(f"{self.queued / self.calls:.2g} s of it in the queue")
            if self.timed:
                parts.append(f"first token after {self.first_token / self.timed:.2g} s")
        return "; ".join(parts)

    def __add__(self, other: Self) -> "ModelUse":
        """The calls of both, which are of the same model, without a cost."""
        return ModelUse(
            self.model,
            self.role,
            self.calls + other.calls,
            self.usage + other.usage,
            self.seconds + other.seconds,
            self.queued + other.queued,
            self.first_token + other.first_token,
            self.timed + other.timed,
        )


class ModelUses:
    """Adds up calls by model and role. `all` are the sums, in the order of the first calls."""

    __slots__ = ("_by_model",)

    def __init__(self) -> None:
        self._by_model: dict[tuple[str, ModelRole], ModelUse] = {}

    def add(self, use: ModelUse) -> None:
        key = (use.model, use.role)
        known = self._by_model.get(key)
        self._by_model[key] = use if known is None else known + use

    @property
    def all(self) -> tuple[ModelUse, ...]:
        return tuple(self._by_model.values())

    @property
    def usage(self) -> Usage:
        """The tokens of all calls."""
        return sum((use.usage for use in self._by_model.values()), NO_USAGE)


_Dollars = Annotated[float, msgspec.Meta(ge=0, le=10**6)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a model in dollars per million tokens.

    `cached` is for the part of the input that the server had cached; None: as other input.
    """

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None

    def cost(self, usage: Usage) -> int:
        """The cost of these tokens in picodollars."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        rate = self.input if self.cached is None else self.cached
        return (
            round(self.input * _PER_TOKEN) * (usage.input_tokens - cached)
            + round(rate * _PER_TOKEN) * cached
            + round(self.output * _PER_TOKEN) * usage.output_tokens
        )


class Prices(msgspec.Struct, frozen=True):
    """The prices of models by name. A name that ends in `*` is for all names that begin so."""

    by_model: dict[str, Price] = {}

    @classmethod
    def read(cls, given: object) -> "Prices":
        """The prices of a mapping, or of a YAML file with one. Raises ValueError."""
        if isinstance(given, str | Path):
            try:
                given = msgspec.yaml.decode(Path(given).read_bytes())
            except (OSError, msgspec.DecodeError) as error:
                raise ValueError(f"the prices cannot be read: {error}") from error
        if not isinstance(given, Mapping):
            raise ValueError(  # noqa: TRY004 - a wrong setting, not a wrong type in a program
                "prices are a mapping such as {gpt-x: {input: 0.15, output: 0.6}}, in dollars per "
                "million tokens, or a YAML file with one"
            )
        return cls({str(model): _price(str(model), fields) for model, fields in given.items()})

    def of(self, model: str) -> Price | None:
        """The price of a model: its own, else that of the longest pattern that fits."""
        own = self.by_model.get(model)
        if own is not None:
            return own
        fitting = [
            name
            for name in self.by_model
            if name.endswith("*") and model.startswith(name.removesuffix("*"))
        ]
        return self.by_model[max(fitting, key=len)] if fitting else None

    def priced(self, uses: Iterable[ModelUse]) -> tuple[ModelUse, ...]:
        """The same calls with their costs."""
        return tuple(
            use
            if (price := self.of(use.model)) is None
            else msgspec.structs.replace(use, cost=price.cost(use.usage))
            for use in uses
        )


def _price(model: str, fields: object) -> Price:
    try:
        return msgspec.convert(fields, Price)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"the price of {model!r} is not valid ({error}); write it as "
            "{input: 0.15, output: 0.6}, in dollars per million tokens"
        ) from error
