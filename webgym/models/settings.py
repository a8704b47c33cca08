"""Settings of an agent: `policy_config`, `model_config`, its context, and the limits of its calls.

The model's type decides whether it thinks and sees pictures. `prompt_version` stands in
`model_config` or in `context_config`; two different values are rejected.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BeforeValidator, Field, field_validator

from rollgym.numbers import Count, Natural, NonNegative, Positive, Probability, Share, number
from rollgym.servers.endpoints.times import POLICY_VERSION_HEADER, VersionFallback
from rollgym.servers.gguf import file_digest
from rollgym.store import Setting
from rollgym.suggestions import advice
from webgym.context.formats import find_format
from webgym.context.settings import ContextSettings
from webgym.models.chat_model import ChatSettings
from webgym.settings import SettingsSection, Text, WebSettingsError, plain_mapping, read_known

Params = Mapping[str, object]


class ModelInterface(msgspec.Struct, frozen=True, kw_only=True):
    """One `model_type`.

    `is_sampled` is False for programs, which get no sampling parameters. `common_parameters` are
    the sampling parameters that are always sent; None means all. `extra` goes with every request.
    """

    thinking: bool = False
    vision: bool = True
    is_sampled: bool = True
    common_parameters: frozenset[str] | None = None
    extra: Params = {}

    def sends(self, parameter: str) -> bool:
        """Whether the parameter is sent also with its default value."""
        return self.common_parameters is None or parameter in self.common_parameters


INTERFACES: Mapping[str, ModelInterface] = {
    "qwen3-instruct": ModelInterface(extra={"chat_template_kwargs": {"enable_thinking": False}}),
    "qwen3-think": ModelInterface(
        thinking=True, extra={"chat_template_kwargs": {"enable_thinking": True}}
    ),
    # Any chat model: it reads the page as text, and gets only parameters that every server knows.
    "text": ModelInterface(
        vision=False, common_parameters=frozenset(("temperature", "max_tokens"))
    ),
    # Any vision model behind a plain OpenAI-compatible endpoint.
    "vision": ModelInterface(common_parameters=frozenset(("temperature", "max_tokens"))),
    # The policy of `rollgym policy serve`.
    "baseline": ModelInterface(vision=False, is_sampled=False),
}


def interface_of(model_type: str) -> ModelInterface:
    """The interface of a model type. Raises ValueError for an unknown type, with a suggestion."""
    interface = INTERFACES.get(model_type)
    if interface is None:
        hint = advice(model_type, INTERFACES, f"the types are {', '.join(INTERFACES)}")
        raise ValueError(f"unknown model_type {model_type!r:.60}: {hint}")
    return interface


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
    api_key_env_var: Annotated[Text | None, Setting.ADDRESS] = Field(
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
    grammar: Literal["llama.cpp", "vllm"] | None = Field(
        default=None,
        description="constrain replies to the actions that the page allows, in the form that this "
        "server takes: `llama.cpp` or `vllm` (null: no constraint; needs a format with a grammar, "
        "such as `compact`)",
    )
    return_token_ids: bool = Field(
        default=False,
        description="ask the server for token ids and log probabilities, and keep them",
    )
    policy_version_header: Annotated[Text | None, Setting.NOTE] = Field(
        default=POLICY_VERSION_HEADER,
        description="header of the server's responses with the policy version (null: none)",
    )
    policy_version_fallback: Annotated[VersionFallback | None, Setting.NOTE] = Field(
        default=None,
        description="field to use as policy version if the server sends none: `model` (the name of "
        "the model in its answer) or `system_fingerprint` (null: no field)",
    )
    omit_fields: tuple[Text, ...] = Field(
        default=(),
        description="fields that are not sent to the model's server, such as [seed, user, top_k]",
    )
    extra_body: dict[str, Any] = Field(
        default={},
        description="further fields of every request to the model's server; they replace "
        "all fields but model and messages",
    )

    @field_validator("omit_fields", mode="after")
    @classmethod
    def _names_of_the_api(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        needed = {"messages", "model"} & set(value)
        if needed:
            raise ValueError(f"every request needs {' and '.join(sorted(needed))}")
        return tuple(_PARAMETERS.get(name, name) for name in value)

    def params(self, interface: ModelInterface) -> Params:
        """The parameters of every request to a model with this interface.

        Some interfaces send a parameter only if it has another value than the default. That it is
        set does not matter: the files of a configuration set all of them.
        """
        fields = type(self).model_fields
        sampling = {
            parameter: getattr(self, name)
            for name, parameter in _PARAMETERS.items()
            if interface.is_sampled
            and (interface.sends(parameter) or getattr(self, name) != fields[name].default)
        }
        return self.request({**interface.extra, **sampling})

    def grammar_fields(self, grammar: str) -> Params:
        """The fields of a request that constrain the reply."""
        if self.grammar == "vllm":
            return {"structured_outputs": {"grammar": grammar}}
        return {"grammar": grammar}

    def request(self, fields: Params) -> Params:
        """The fields that are sent: with those of `extra_body`, and without the omitted ones."""
        sent = {**fields, **self.extra_body}
        return {name: value for name, value in sent.items() if name not in self.omit_fields}


class ModelSettings(SettingsSection):
    """What kind of model it is, and what its replies consist of."""

    model_type: str = Field(
        default="qwen3-instruct",
        description="kind of model: `qwen3-instruct`, `qwen3-think` (thinks first), "
        "`vision` (any other that sees pictures), `text` (sees no pictures), `baseline` (a "
        "scripted policy)",
    )
    prompt_version: str = Field(
        default="complete",
        description="prompt format: `complete` asks for memory, progress, intention and action, "
        "`vanilla` for the action alone, `compact` for one short line",
    )

    @field_validator("model_type", mode="after")
    @classmethod
    def _is_known(cls, value: str) -> str:
        interface_of(value)
        return value

    @field_validator("prompt_version", mode="after")
    @classmethod
    def _is_a_format(cls, value: str) -> str:
        find_format(value)
        return value

    @property
    def interface(self) -> ModelInterface:
        return interface_of(self.model_type)


class LocalModelSettings(SettingsSection):
    """The model of `embedded=[model]`, which `rollgym model serve` serves."""

    model_path: Annotated[Path | None, Setting.ADDRESS] = Field(
        default=None, description="GGUF file (null: the bundled SmolLM2-135M-Instruct)"
    )
    chat_template: Path | None = Field(
        default=None, description="file with a chat template (null: the model's own)"
    )
    threads: Annotated[Count, Setting.TIMING] = Field(
        default=1, description="processor threads of the model"
    )
    slots: Annotated[Count, Setting.TIMING] = Field(
        default=4, description="requests that the model answers at the same time"
    )
    context: Count = Field(default=4096, description="longest prompt with its reply, in tokens")

    @property
    def options(self) -> list[str]:
        """The options of the command that serves it."""
        given = {key.replace("_", "-"): value for key, value in self.plain.items()}
        return [f"--{key}={value}" for key, value in given.items() if value is not None]

    @property
    def identity(self) -> dict[str, object]:
        """What decides the replies: the content of the files, wherever they are.

        The bundled model as it comes adds nothing. Raises WeightsError.
        """
        digests = {"model_sha256": self.model_path, "chat_template_sha256": self.chat_template}
        return {name: file_digest(path) for name, path in digests.items() if path is not None}


class ModelCallSettings(SettingsSection):
    """How long an agent's calls may take, and how many may run at a time. Keys of `env_config`."""

    operation_timeout: Annotated[Positive, Setting.TIMING] = Field(
        default=120.0,
        description="seconds for one step in the browser, and for retries of a model call",
    )
    vllm_timeout: Annotated[Positive, Setting.TIMING] = Field(
        default=240.0, description="seconds for one reply of the model"
    )
    max_retries: Annotated[Natural, Setting.TIMING] = Field(
        default=2, description="number of retries of a failed task, and of a failed model call"
    )
    max_vllm_sessions: Annotated[Count, Setting.TIMING] = Field(
        default=128, description="concurrent requests of all ranks to the model"
    )
    evaluation_workers: Annotated[Count, Setting.TIMING] = Field(
        default=16, description="trajectories that all ranks together judge at a time"
    )
    evaluation_timeout: Annotated[Positive, Setting.TIMING] = Field(
        default=600.0,
        description="seconds for the verdict on a trajectory, after the time of its task",
    )

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
            outage_timeout=self.operation_timeout,
            tokens=policy.return_token_ids,
            version_header=policy.policy_version_header,
            version_fallback=policy.policy_version_fallback,
        )


def read_context(given: object, model: ModelSettings) -> ContextSettings:
    """The context of an agent with this model. Raises WebSettingsError, naming the key."""
    named = plain_mapping(given, "context_config")
    if "thinking" in named:
        raise WebSettingsError(
            "context_config.thinking: unknown key; model_config.model_type decides it: qwen3-think "
            "thinks, qwen3-instruct does not"
        )
    settings = read_known(ContextSettings, named, name="context_config")
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
    context = settings.model_copy(update=update)
    _check_format(context)
    return context


def _check_format(context: ContextSettings) -> None:
    """Raises WebSettingsError if the prompt format does not fit the other settings."""
    name, prompts = context.prompt_version, context.format
    if context.interaction_mode not in prompts.modes:
        raise WebSettingsError(
            f"prompt_version {name} needs context_config.interaction_mode="
            f"{' or '.join(prompts.modes)}, not {context.interaction_mode}"
        )
    if context.shown not in prompts.observations:
        raise WebSettingsError(
            f"prompt_version {name} needs context_config.observation="
            f"{' or '.join(prompts.observations)}, not {context.shown}"
        )
