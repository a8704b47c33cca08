"""What an agent can be told: `policy_config`, `model_config`, `context_config`, and its limits.

A config is a plain dictionary or a node of Hydra. A key that nobody reads is refused, with the one
that may be meant. Two things are decided in one place only: whether the model thinks and sees is
the business of its `model_type`, and `prompt_version` stands in `model_config`, as in the field, or
in `context_config`, but not differently in both.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from rollgym.store import RefusedError
from webgym.browser.contract.answers import ImageFormat, Observe
from webgym.context.settings import ContextSettings, PromptVersion
from webgym.episode.environment_settings import plain_config, read_config
from webgym.models.chat_model import ChatSettings
from webgym.models.interfaces import Interface, Params, interface_of

_Positive = Annotated[float, Meta(gt=0)]
_Share = Annotated[float, Meta(ge=0, le=1)]

# What the API of chat completions calls the parameters of `policy_config`.
_SAMPLING = {
    "max_new_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
}


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model, and how its replies are sampled; None leaves it to the model's type.

    - `base_model`: its name, as its server knows it; None: the one that is served.
    - `checkpoint_path`: which weights were served; it is only written down.
    - `return_token_ids`: ask for token ids and log probabilities, and keep them.
    - `api_key_env_var`: the environment variable with the key of endpoints that name none.
    - `extra_body`: further parameters for the server; they go before all others.
    """

    base_model: str | None = None
    checkpoint_path: str | None = None
    max_new_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: _Share | None = None
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    min_p: _Share | None = None
    return_token_ids: bool = False
    api_key_env_var: str | None = None
    extra_body: dict[str, object] = {}

    @classmethod
    def of(cls, given: object) -> "PolicySettings":
        """Raises RefusedError, naming the key."""
        return read_config("policy_config", given, cls)

    def params(self, interface: Interface) -> Params:
        """The parameters of every request to a model of this type."""
        sampling = interface.sampling
        if sampling is None:
            return {**interface.extra, **self.extra_body}
        given = {sent: getattr(self, name) for name, sent in _SAMPLING.items()}
        said = {name: value for name, value in given.items() if value is not None}
        return {**interface.extra, **sampling, **said, **self.extra_body}


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the model is spoken to; `webgym.models.interfaces` has the types there are."""

    model_type: str = "qwen3-instruct"
    prompt_version: PromptVersion | None = None

    @classmethod
    def of(cls, given: object) -> "ModelSettings":
        """Raises RefusedError, naming the key."""
        settings = read_config("model_config", given, cls)
        interface_of(settings.model_type)
        return settings

    @property
    def interface(self) -> Interface:
        return interface_of(self.model_type)


class CallLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long an agent's calls may take, and how many there may be at a time."""

    operation_timeout: _Positive
    vllm_timeout: _Positive
    max_retries: Annotated[int, Meta(ge=0)]
    max_vllm_sessions: Annotated[int, Meta(ge=1)]

    @classmethod
    def of(cls, **given: float) -> "CallLimits":
        """Raises RefusedError, naming the parameter."""
        return read_config("WebAgent", given, cls)

    @property
    def within(self) -> float:
        """The longest that a decision may take from its turn on."""
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


class AgentContext(ContextSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agent is shown, and what is kept of it.

    The pictures are of `screenshot_format`, and always kept, because judges and readers look at
    them. `accessibility_tree` says whether the page's tree is kept as well; None: where the model
    is shown text, which is made from it.
    """

    screenshot_format: ImageFormat = "png"
    screenshot_quality: Annotated[int, Meta(ge=0, le=100)] = 80
    accessibility_tree: bool | None = None

    @classmethod
    def of(cls, given: object, model: ModelSettings) -> "AgentContext":
        """The context of a model of this type. Raises RefusedError, naming the key."""
        named = plain_config("context_config", given)
        if "thinking" in named:
            raise RefusedError(
                "context_config has no key 'thinking': model_type of model_config decides it; "
                "qwen3-think thinks, qwen3-instruct does not"
            )
        settings = read_config("context_config", named, cls)
        version = model.prompt_version or settings.prompt_version
        if "prompt_version" in named and settings.prompt_version != version:
            raise RefusedError(
                f"prompt_version is {version} in model_config and {settings.prompt_version} in "
                "context_config: give it once"
            )
        settings = msgspec.structs.replace(
            settings, prompt_version=version, thinking=model.interface.thinking
        )
        return settings if model.interface.vision else _in_words(settings, model.model_type)

    @property
    def observe(self) -> Observe:
        """What a step in the browser has to answer with."""
        tree = self.accessibility_tree
        return Observe(
            interaction_mode=self.interaction_mode,
            screenshot=self.screenshot_format,
            quality=self.screenshot_quality,
            elements=True if self.shows_text else None,
            tree=self.shows_text if tree is None else tree,
        )


def _in_words(settings: AgentContext, model_type: str) -> AgentContext:
    """The same for a model that sees no pictures."""
    if settings.observation not in (None, "text"):
        raise RefusedError(
            f"a model of model_type {model_type} sees no pictures: context_config.observation "
            f"must be text, not {settings.observation}"
        )
    return msgspec.structs.replace(settings, observation="text")
