"""`openai_config`: which models judge, where they are, and how they are asked.

What stands at the top holds for every purpose; `keypoint_detection`, `blocking_detection` and
`evaluation` may each say otherwise. Without a configuration there is no judge, and then only tasks
that know their own truth can be judged.
"""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from rollgym.store import RefusedError
from webgym.environment.foundry_endpoints_models import FoundryEndpoint, read_endpoints
from webgym.episode.environment_settings import Count, Positive, plain_config, read_config

ROOT = "openai_config"
DEFAULT_MAX_SCREENSHOTS = 8


class Purpose(StrEnum):
    """What a judge is asked for."""

    KEYPOINT_DETECTION = "keypoint_detection"
    BLOCKING_DETECTION = "blocking_detection"
    EVALUATION = "evaluation"


class PurposeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The judge for one purpose. A parameter that is null is not sent.

    - `model`: its name at the endpoint; `base_url`: where that is, or a list of such places.
    - `openai_api_key_env_var`: the environment variable with the key, where one is needed.
    - `max_tokens`: how long a reply may be. Some endpoints call this `max_completion_tokens`; where
      that is given it is sent instead.
    - `timeout`: seconds for one question; `max_retries`: further tries of it at an endpoint that
      fails.
    """

    model: Annotated[str, msgspec.Meta(min_length=1)]
    base_url: Any
    openai_api_key_env_var: str | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = 0.0
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    max_tokens: Count | None = 2048
    max_completion_tokens: Count | None = None
    reasoning_effort: str | None = None
    timeout: Positive = 120.0
    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 2

    def endpoints(self) -> tuple[FoundryEndpoint, ...]:
        """Where the model is. Raises EndpointError."""
        return read_endpoints(self.base_url, key_variable=self.openai_api_key_env_var)

    def params(self, *, room: int = 1) -> dict[str, object]:
        """The parameters of a request, with `room` times as much space for the reply."""
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


class JudgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All of `openai_config`. `max_screenshots`: how many an evaluation looks at, at most."""

    purposes: dict[Purpose, PurposeSettings]
    max_screenshots: int = DEFAULT_MAX_SCREENSHOTS

    @property
    def endpoints(self) -> tuple[tuple[FoundryEndpoint, ...], ...]:
        """Where the judges are: for each that is elsewhere, its places. Raises EndpointError."""
        return tuple(dict.fromkeys(each.endpoints() for each in self.purposes.values()))

    @classmethod
    def of(cls, written: object) -> "JudgeSettings | None":
        """Read a dict or a Hydra node; None where it says nothing. Raises RefusedError."""
        config = plain_config(ROOT, written)
        if not config:
            return None
        top = msgspec.structs.asdict(read_config(ROOT, config, _Top))
        common = {name: value for name, value in config.items() if name in _FIELDS}
        own = {
            purpose: plain_config(f"{ROOT}.{purpose}", config.get(purpose)) for purpose in Purpose
        }
        return cls(
            purposes={purpose: _purpose(common, own[purpose], purpose) for purpose in Purpose},
            max_screenshots=top["max_screenshots"],
        )

    @property
    def identity(self) -> dict[str, object]:
        """What of it can change verdicts: which model is asked how, not where it is."""
        asked = {
            str(purpose): {"model": settings.model, **settings.params()}
            for purpose, settings in self.purposes.items()
        }
        return {**asked, "max_screenshots": self.max_screenshots}


_FIELDS = tuple(field.name for field in msgspec.structs.fields(PurposeSettings))
_Top = msgspec.defstruct(
    "_Top",
    [
        ("max_screenshots", Count, DEFAULT_MAX_SCREENSHOTS),
        *((str(name), Any, None) for name in (*_FIELDS, *Purpose)),
    ],
)
"""The keys that may stand at the top; those of the purposes are read once for each of them."""


def _purpose(common: dict[str, Any], own: dict[str, Any], purpose: Purpose) -> PurposeSettings:
    fields = {**common, **own}
    for name, example in (("model", "the name of the judge"), ("base_url", "http://HOST:PORT/v1")):
        if not fields.get(name):
            raise RefusedError(
                f"{ROOT} has no {name} for {purpose}: set {ROOT}.{name} ({example}), or {ROOT} to "
                "null where no task needs a judge"
            )
    return read_config(f"{ROOT}.{purpose}", fields, PurposeSettings)
