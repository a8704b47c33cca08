"""Settings of an agent: `policy_config`, `model_config`, its context, and the limits of its calls.

The model's type decides whether it thinks and sees pictures. `prompt_version` stands in
`model_config` or in `context_config`; two different values are rejected.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from webgym.context.settings import ContextSettings, PromptVersion
from webgym.models.chat_model import ChatSettings
from webgym.models.interfaces import Interface, Params, interface_of
from webgym.settings import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Probability,
    SettingsSection,
    Share,
    Text,
    WebSettingsError,
    number,
    plain_mapping,
    read_settings,
)

_PARAMETERS = {
    "max_new_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
}
"""The names of sampling settings, and their names in the chat completions API."""


class PolicySettings(SettingsSection):
    """Which model acts, and how its replies are sampled."""

    base_model: Text | None = Field(
        default=None, description="name of the model at its server (null: the model that is served)"
    )
    checkpoint_path: Text | None = Field(
        default=None, description="weights that are served; only recorded with the trajectories"
    )
    api_key_env_var: Text | None = Field(
        default=None, description="environment variable with the server's key (null: no key)"
    )
    max_new_tokens: Count = Field(default=3072, description="longest reply, in tokens")
    temperature: NonNegative = Field(
        default=1.0, description="sampling temperature; 0 always takes the likeliest token"
    )
    top_p: Share = Field(
        default=0.99, description="sample from the likeliest tokens that have this share in total"
    )
    top_k: Annotated[int, BeforeValidator(number), Field(ge=-1)] = Field(
        default=2, description="sample from this number of likeliest tokens; 0 or -1: from all"
    )
    min_p: Probability = Field(
        default=0.0, description="lowest probability of a token, as a share of the likeliest one's"
    )
    return_token_ids: bool = Field(
        default=False,
        description="ask the server for token ids and log probabilities, and keep them",
    )
    extra_body: dict[str, Any] = Field(
        default={}, description="further parameters of every request to the model's server"
    )

    def params(self, interface: Interface) -> Params:
        """The parameters of every request to a model with this interface.

        Some interfaces send a parameter only where the settings name it.
        """
        if not interface.is_sampled:
            return {**interface.extra, **self.extra_body}
        sampling = {
            parameter: getattr(self, name)
            for name, parameter in _PARAMETERS.items()
            if interface.sends(parameter) or name in self.model_fields_set
        }
        return {**interface.extra, **sampling, **self.extra_body}


class ModelSettings(SettingsSection):
    """What kind of model it is, and what its replies consist of."""

    model_type: str = Field(
        default="qwen3-instruct",
        description="kind of model: `qwen3-instruct`, `qwen3-think` (thinks first), `text` (sees "
        "no pictures), `baseline` (a scripted policy)",
    )
    prompt_version: PromptVersion = Field(
        default="complete",
        description="parts of a reply: `complete` asks for memory, progress, intention and action, "
        "`vanilla` for the action alone",
    )

    @field_validator("model_type", mode="after")
    @classmethod
    def _is_known(cls, value: str) -> str:
        interface_of(value)
        return value

    @property
    def interface(self) -> Interface:
        return interface_of(self.model_type)


class ModelCallSettings(SettingsSection):
    """How long an agent's calls may take, and how many may run at a time. Keys of `env_config`."""

    operation_timeout: Positive = Field(
        default=120.0,
        description="seconds for one step in the browser, and for retries of a model call",
    )
    vllm_timeout: Positive = Field(default=240.0, description="seconds for one reply of the model")
    max_retries: Natural = Field(
        default=2, description="number of retries of a failed task, and of a failed model call"
    )
    max_vllm_sessions: Count = Field(default=128, description="concurrent requests to the model")
    evaluation_workers: Count = Field(default=16, description="trajectories judged at a time")

    @property
    def within(self) -> float:
        """The longest time for a decision, from the moment it has a slot."""
        return self.operation_timeout + self.vllm_timeout

    def chat(self, policy: PolicySettings) -> ChatSettings:
        """How the model of this policy is called."""
        return ChatSettings(
            model=policy.base_model,
            max_concurrency=self.max_vllm_sessions,
            request_timeout=self.vllm_timeout,
            max_retries=self.max_retries,
            patience=self.operation_timeout,
            tokens=policy.return_token_ids,
        )


def read_context(given: object, model: ModelSettings) -> ContextSettings:
    """The context of an agent with this model. Raises WebSettingsError, naming the key."""
    named = plain_mapping(given, "context_config")
    if "thinking" in named:
        raise WebSettingsError(
            "context_config.thinking: unknown key; model_config.model_type decides it: qwen3-think "
            "thinks, qwen3-instruct does not"
        )
    settings = read_settings(ContextSettings, named, name="context_config")
    version = model.prompt_version
    if "prompt_version" in named:
        if "prompt_version" in model.model_fields_set and settings.prompt_version != version:
            raise WebSettingsError(
                f"prompt_version is {version} in model_config and {settings.prompt_version} in "
                "context_config: set it once"
            )
        version = settings.prompt_version
    update: dict[str, object] = {
        "prompt_version": version,
        "thinking": model.interface.thinking,
    }
    if not model.interface.vision:
        if settings.observation not in (None, "text"):
            raise WebSettingsError(
                f"a model of model_type {model.model_type} sees no pictures: "
                f"context_config.observation must be text, not {settings.observation}"
            )
        update["observation"] = "text"
    return settings.model_copy(update=update)
