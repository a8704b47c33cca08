"""The agent: it observes a page, asks the model, and parses the action in its reply.

`decide` is one step: the chat is built from the task, the past rounds and the current observation,
the model is asked, and its reply is parsed. The record of the reply is complete: the prompt as it
was sent, the text as it came, the parts that were found in it, the tolerances, and why it is not an
action if it is none. An agent keeps no state between two decisions, so one agent serves any number
of episodes at a time.

*Time.* One try at an endpoint takes at most `vllm_timeout`. `operation_timeout` is for what goes
wrong before a try succeeds: repeated tries, and waiting for a model that is away. A decision takes
at most both, from its turn on; `max_vllm_sessions` decisions have their turn at a time.

*Seeds.* The server samples each reply with a seed of its own, from the rollout's seed and the
number of the step, as far as it goes by seeds at all.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rollgym.records import derive_seed
from webgym.browser.contract.answers import Observe
from webgym.context.conversation import Chat, build_chat
from webgym.context.page_view import AgentObservation, Round
from webgym.context.parsers import ParsedReply, parse_reply
from webgym.episode.interfaces import Decision
from webgym.models.chat_model import ChatModel
from webgym.models.completion import Completion
from webgym.models.endpoints import read_endpoints
from webgym.models.evaluator import Evaluator
from webgym.models.settings import (
    ModelCallSettings,
    ModelSettings,
    PolicySettings,
    read_context,
)
from webgym.settings import read_settings
from webgym.tasks import WebTask
from webgym.trajectory import ResponseRecord

SEED_BITS = 31
"""As many as every server takes."""


class WebAgent:
    """A model that acts on web pages, and the evaluator that judges what came of it.

    The configurations are plain dictionaries or nodes of Hydra (`webgym.models.settings`);
    `vllm_server_url` is a URL, several, or endpoints with names, weights and limits
    (`webgym.models.endpoints`). Times are in seconds. Raises RefusedError where
    something is wrong with them. A limit that is not given has the default of its key in
    `env_config`.

    Connections are made when they are needed, for each event loop its own; `async with agent:`
    closes those of its loop in the end. `with agent:` is for those who only have it judge.
    """

    def __init__(  # noqa: PLR0917 - the signature that users know
        self,
        policy_config: object,
        context_config: object,
        model_config: object,
        save_path: str | Path,
        vllm_server_url: object,
        openai_config: object = None,
        operation_timeout: float | None = None,
        vllm_timeout: float | None = None,
        max_retries: int | None = None,
        max_vllm_sessions: int | None = None,
        evaluation_workers: int | None = None,
    ) -> None:
        self.policy = read_settings(PolicySettings, policy_config, name="policy_config")
        self.model_settings = read_settings(ModelSettings, model_config, name="model_config")
        self.context = read_context(context_config, self.model_settings)
        limits = read_settings(
            ModelCallSettings,
            {
                "operation_timeout": operation_timeout,
                "vllm_timeout": vllm_timeout,
                "max_retries": max_retries,
                "max_vllm_sessions": max_vllm_sessions,
                "evaluation_workers": evaluation_workers,
            },
            name="WebAgent",
        )
        self.evaluator = Evaluator(
            openai_config, save_path, evaluation_workers=limits.evaluation_workers
        )
        self.endpoints = read_endpoints(vllm_server_url, key_variable=self.policy.api_key_env_var)
        self.model = ChatModel(self.endpoints, limits.chat(self.policy))
        self._params = self.policy.params(self.model_settings.interface)
        self._within = limits.within

    @property
    def observe(self) -> Observe:
        """What a step in the browser has to answer with."""
        return self.context.observe

    @property
    def identity(self) -> dict[str, object]:
        """What of it can change results: all but where the models are served.

        Where no `base_model` is named, whatever model is served acts; each response has its name.
        """
        return {
            "base_model": self.policy.base_model,
            "checkpoint_path": self.policy.checkpoint_path,
            "params": dict(self._params),
            "model_config": self.model_settings.plain,
            "context_config": self.context.plain,
            "judge": self.evaluator.identity,
        }

    async def decide(
        self,
        task: WebTask,
        past: Sequence[Round],
        current: AgentObservation,
        *,
        conversation: str,
        seed: int,
    ) -> Decision:
        """The next action of an episode, which `conversation` names to the server.

        A reply that is no action is a decision without one; the record says why. Raises the model
        errors of `rollgym.records` and DeadlineError where there is no reply.
        """
        chat = build_chat(self.context, task, past, current)
        drawn = derive_seed(seed, "model", len(past)) % 2**SEED_BITS
        completion = await self.model.complete(
            chat.messages,
            {**self._params, "seed": drawn, "user": conversation},
            within=self._within,
        )
        reply = parse_reply(completion.text, self.context)
        return Decision(_record(chat, completion, reply), reply.action)

    async def close(self) -> None:
        """Close the connections of this event loop."""
        try:
            await self.model.close()
        finally:
            await self.evaluator.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        self.evaluator.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        self.evaluator.__exit__(*reason)


def _record(chat: Chat, completion: Completion, reply: ParsedReply) -> ResponseRecord:
    return ResponseRecord(
        raw_prompt=chat.recorded,
        raw_response=completion.text,
        fields=reply.fields,
        tolerances=reply.tolerances,
        parse_failure=reply.failure,
        model=completion.model,
        finish_reason=completion.finish_reason,
        usage=completion.usage,
        prompt_token_ids=completion.prompt_token_ids,
        token_ids=completion.token_ids,
        logprobs=completion.logprobs,
        seconds=completion.seconds,
    )
