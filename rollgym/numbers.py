"""Types for the numbers in settings that are pydantic models."""

from typing import Annotated

from pydantic import BeforeValidator, Field


def number(value: object) -> object:
    """Reject `true` and `false`, which Python accepts as numbers."""
    if isinstance(value, bool):
        raise ValueError("a number is needed")  # noqa: TRY004 - pydantic expects a ValueError
    return value


Count = Annotated[int, BeforeValidator(number), Field(ge=1)]
Natural = Annotated[int, BeforeValidator(number), Field(ge=0)]
Positive = Annotated[float, BeforeValidator(number), Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, BeforeValidator(number), Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(number), Field(gt=0, le=1)]
Probability = Annotated[float, BeforeValidator(number), Field(ge=0, le=1)]
Port = Annotated[int, BeforeValidator(number), Field(ge=1, le=65_535)]
