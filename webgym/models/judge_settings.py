"""Settings of a judge.

`openai_config` says which models judge, where they are served, and how they are called. The keys at
the top apply to every purpose; `keypoint_detection`, `blocking_detection` and `evaluation` may each
override them. Without a configuration there is no judge, and then only tasks with their own check
can be scored.
"""

import os
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, field_validator

from rollgym.numbers import Count, Natural, NonNegative, Positive, Share
from rollgym.store import Setting
from webgym.models.endpoints import FoundryEndpoint, read_endpoints
from webgym.settings import (
    SettingsSection,
    Text,
    known_values,
    plain_mapping,
    problems_in,
    read_settings,
)

ROOT = "openai_config"


class Purpose(StrEnum):
    """What a judge is asked for."""

    KEYPOINT_DETECTION = "keypoint_detection"
    BLOCKING_DETECTION = "blocking_detection"
    EVALUATION = "evaluation"


class PurposeSettings(SettingsSection):
    """The judge for one purpose. A sampling parameter that is null is not sent."""

    model: Text = Field(description="name of the judge")
    base_url: Annotated[Text | list[Any], Setting.ADDRESS] = Field(
        default="https://api.openai.com/v1",
        description="URL of the judge, or a list as vllm_server_url",
    )
    openai_api_key_env_var: Annotated[Text | None, Setting.ADDRESS] = Field(
        default="OPENAI_API_KEY",
        description="environment variable with the judge's key (null: no key)",
    )
    temperature: NonNegative | None = Field(
        default=0.0, description="sampling temperature (null: not sent)"
    )
    top_p: Share | None = Field(default=None, description="sampling share top_p (null: not sent)")
    max_tokens: Count | None = Field(default=2048, description="longest reply, in tokens")
    max_completion_tokens: Count | None = Field(
        default=None, description="longest reply, under the newer name; sent instead of max_tokens"
    )
    reasoning_effort: Text | None = Field(
        default=None, description="reasoning effort, for judges that have one (null: not sent)"
    )
    timeout: Annotated[Positive, Setting.TIMING] = Field(
        default=120.0, description="seconds for one reply of the judge"
    )
    max_retries: Annotated[Natural, Setting.TIMING] = Field(
        default=2, description="retries of a failed request to the judge"
    )

    def endpoints(self) -> tuple[FoundryEndpoint, ...]:
        """Where the model is served. Raises EndpointError.

        The default key variable may be unset; a variable that the settings name must be set.
        """
        variable = self.openai_api_key_env_var
        is_named = "openai_api_key_env_var" in self.model_fields_set
        if variable is not None and not is_named and not os.environ.get(variable):
            variable = None
        return read_endpoints(self.base_url, key_variable=variable)

    def params(self, *, room: int = 1) -> dict[str, object]:
        """The parameters of a request, with `room` times the length for the reply."""
        length, name = self.max_completion_tokens, "max_completion_tokens"
        if length is None:
            length, name = self.max_tokens, "max_tokens"
        chosen = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "reasoning_effort": self.reasoning_effort,
            name: None if length is None else length * room,
        }
        return {name: value for name, value in chosen.items() if value is not None}


class JudgeSettings(PurposeSettings):
    """All of `openai_config`."""

    max_screenshots: Count = Field(
        default=8, description="most screenshots that one evaluation uses"
    )
    keypoint_detection: dict[str, Any] = Field(
        default={}, description="overrides of these keys for choosing screenshots"
    )
    blocking_detection: dict[str, Any] = Field(
        default={}, description="overrides of these keys for detecting blocked pages"
    )
    evaluation: dict[str, Any] = Field(
        default={}, description="overrides of these keys for scoring the criteria"
    )

    @field_validator(*Purpose, mode="after")
    @classmethod
    def _can_be_used(cls, value: dict[str, Any]) -> dict[str, Any]:
        problems = problems_in(PurposeSettings, {"model": "any"} | value)
        if problems:
            raise ValueError("; ".join(line.strip() for line in problems))
        return value

    @cached_property
    def purposes(self) -> dict[Purpose, PurposeSettings]:
        """The settings for each purpose."""
        common = {
            name: getattr(self, name)
            for name in PurposeSettings.model_fields
            if name in self.model_fields_set
        }
        return {
            purpose: PurposeSettings.model_validate(common | getattr(self, purpose))
            for purpose in Purpose
        }

    @property
    def all_endpoints(self) -> tuple[tuple[FoundryEndpoint, ...], ...]:
        """The endpoints of each distinct judge. Raises EndpointError."""
        return tuple(dict.fromkeys(each.endpoints() for each in self.purposes.values()))

    @classmethod
    def of(cls, given: object, *, strict: bool = True) -> "JudgeSettings | None":
        """Read a dictionary or a Hydra node; None if it is empty. Raises WebSettingsError.

        Not `strict`: unknown keys are warnings, as with `known_values`.
        """
        if isinstance(given, JudgeSettings):
            return given
        config = plain_mapping(given, ROOT)
        if not strict:
            config = known_values(cls, config, name=ROOT)
            for purpose in Purpose:
                if isinstance(config.get(purpose), Mapping):
                    name = f"{ROOT}.{purpose}"
                    config[purpose] = known_values(PurposeSettings, config[purpose], name=name)
        return read_settings(cls, config, name=ROOT) if config else None

    @property
    def identity(self) -> dict[str, object]:
        """What can change verdicts: which model is called how, not where it is served."""
        asked = {
            str(purpose): {"model": settings.model, **settings.params()}
            for purpose, settings in self.purposes.items()
        }
        return {**asked, "max_screenshots": self.max_screenshots}
