"""The agent: it observes a page, asks the model, and parses the action in its reply.

`decide` is one step: the chat is built from the task, the past rounds and the current observation,
the model is asked, and its reply is parsed. The record of the reply is complete: the prompt as it
was sent, the text as it came, the parts that were found in it, the tolerances, and the
reason if it is not an action. An agent keeps no state between two decisions, so one agent serves
any number of episodes at a time.

*Time.* One try at an endpoint takes at most `vllm_timeout`. `operation_timeout` is for retries, and
for waiting during an outage. A decision takes at most both together, once it has a slot;
`max_vllm_sessions` decisions run at a time.

*Seeds.* The server samples each reply with its own seed, derived from the rollout's seed and the
number of the step, if it supports seeds. `policy_config.omit_fields` turns off this and any other
field of a request.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rollgym.closing import AsyncClosable
from rollgym.records import derive_seed
from webgym.browser.contract.answers import Observe
from webgym.context.formats import Chat, ParsedReply
from webgym.context.page_view import AgentObservation, Round
from webgym.episode.interfaces import Decision
from webgym.models.chat_model import ChatModel
from webgym.models.completion import Completion
from webgym.models.endpoints import read_endpoints
from webgym.models.evaluator import Evaluator
from webgym.models.judge_questions import ScreenshotStore
from webgym.models.settings import (
    LocalModelSettings,
    ModelCallSettings,
    ModelSettings,
    PolicySettings,
    read_context,
)
from webgym.settings import WebSettingsError, read_known, read_settings
from webgym.tasks.task import WebTask
from webgym.trajectory.records import ResponseRecord

SEED_BITS = 31
"""The size of seeds that every server accepts."""


class WebAgent(AsyncClosable):
    """A model that acts on web pages, and the evaluator that scores its episodes.

    The configurations are plain dictionaries or nodes of Hydra (`webgym.models.settings`);
    `vllm_server_url` is a URL, several, or endpoints with names, weights and limits
    (`webgym.models.endpoints`). `embedded_model` is the file that the run itself serves there.
    Unknown keys are reported as UnknownKeyWarning and not used. Times are in seconds. A limit that
    is not given has the default of its key in `env_config`. Raises RefusedError if a setting is
    not valid.

    Connections are made when they are needed, for each event loop its own; `async with agent:`
    closes those of its loop at the end. `with agent:` is for programs that only use its evaluator.
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
        evaluation_timeout: float | None = None,
        screenshots: ScreenshotStore | None = None,
        embedded_model: LocalModelSettings | None = None,
    ) -> None:
        self.policy = read_known(PolicySettings, policy_config, name="policy_config")
        self.model_settings = read_known(ModelSettings, model_config, name="model_config")
        self.context = read_context(context_config, self.model_settings)
        if self.policy.grammar is not None and not self.context.format.has_grammar:
            raise WebSettingsError(
                f"policy_config.grammar needs a prompt format with a grammar, such as compact; "
                f"{self.context.prompt_version} has none"
            )
        limits = read_settings(
            ModelCallSettings,
            {
                "operation_timeout": operation_timeout,
                "vllm_timeout": vllm_timeout,
                "max_retries": max_retries,
                "max_vllm_sessions": max_vllm_sessions,
                "evaluation_workers": evaluation_workers,
                "evaluation_timeout": evaluation_timeout,
            },
            name="WebAgent",
        )
        self.evaluator = Evaluator(
            openai_config,
            save_path,
            evaluation_workers=limits.evaluation_workers,
            timeout=limits.evaluation_timeout,
            screenshots=screenshots,
        )
        self.endpoints = read_endpoints(vllm_server_url, key_variable=self.policy.api_key_env_var)
        self.model = ChatModel(self.endpoints, limits.chat(self.policy))
        self._embedded_model = embedded_model
        self._params = self.policy.params(self.model_settings.interface)
        self._within = limits.within

    @property
    def observe(self) -> Observe:
        """What a step in the browser must return."""
        return self.context.observe

    @property
    def identity(self) -> dict[str, object]:
        """All settings that can change results: all but the addresses of the models.

        Without a `base_model` the model that is served acts; each response has its name. Of a
        model from a file, the content of the file belongs to it. Raises WeightsError.
        """
        omitted = sorted({"seed", "user"}.intersection(self.policy.omit_fields))
        embedded = self._embedded_model.identity if self._embedded_model else {}
        return {
            **({"embedded_model": embedded} if embedded else {}),
            **({"omit_fields": omitted} if omitted else {}),
            **({"grammar": self.policy.grammar} if self.policy.grammar else {}),
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
        """The next action of an episode; `conversation` is its name for the server.

        If the reply is not an action, the decision has none, and its record says why. Raises the
        model errors of `rollgym.records` and DeadlineError if there is no reply.
        """
        prompts = self.context.format
        chat = prompts.write_chat(self.context, task, past, current)
        reply_seed = derive_seed(seed, "model", len(past)) % 2**SEED_BITS
        request = {**self._params, "seed": reply_seed, "user": conversation}
        if self.policy.grammar is not None:
            grammar = prompts.grammar(self.context, task, current)
            request |= self.policy.grammar_fields(grammar)
        completion = await self.model.complete(
            chat.messages,
            self.policy.request(request),
            within=self._within,
        )
        reply = prompts.read_reply(completion.text, self.context, past, current)
        return Decision(_record(chat, completion, reply), reply.action, completion.tokens)

    async def close(self) -> None:
        """Close the connections of this event loop."""
        try:
            await self.model.close()
        finally:
            await self.evaluator.close()

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
        seconds=completion.seconds,
        queued=completion.queued,
        first_token=completion.first_token,
        version=completion.version.version,
        version_parts=completion.version.parts,
    )
