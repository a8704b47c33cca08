"""An agent that other people wrote, as a command or behind HTTP, without a change to it.

The rollout gets a session of the gateway (`rollgym.servers.gateway`). The agent finds its base URLs
and its key in environment variables, or in the request to its service, and works on the task. Its
calls of the model are the rollout: the main conversation becomes the response, and the environment
gives the verdict as for any agent.

*The task* is the request of the row. Its other fields, such as the expected answer, are for the
verifier; an agent reads them only where `task_fields` names them.

*Failures.* An agent that ends with another exit status, at its deadline, or without a call is a
failure with the end of what it wrote. If a call of the model failed for a reason of the endpoint
and was not repeated with success, the rollout fails for that reason, whatever the agent made of it.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import AfterValidator, Field, model_validator

from responses_api_agents.command_agent.command import (
    ENDING,
    KeepFolders,
    RolloutFolder,
    RunningCommand,
    inherited_environment,
    rollout_folder,
    split_command,
)
from responses_api_agents.command_agent.service import AgentService, ServiceCall
from rollgym.records import (
    AgentError,
    DeadlineError,
    ModelContextError,
    RolloutError,
    Row,
    RowError,
    TaskError,
)
from rollgym.records.failure import shorten
from rollgym.records.row import CALLS_FIELD
from rollgym.servers import AgentConfig, AgentServer, Episode, ServerConfig, ServerDirectory
from rollgym.servers.config.instances import is_http_url
from rollgym.servers.context import current_rollout, ending_time, seconds_left
from rollgym.servers.gateway.gateway import Gateway
from rollgym.servers.gateway.session import GatewaySession, SessionLimits
from rollgym.store import RefusedError
from rollgym.store.settings import Setting

TASK_FILE = "task.json"
PROMPT_FILE = "prompt.txt"
LARGEST_GRACE = 0.1
"""Share of the time of a rollout that the grace period takes at most."""
_KILLED = -9


def _usable_url(text: str | None) -> str | None:
    if text is not None and not is_http_url(text):
        raise ValueError(f"{text!r} is not an http:// or https:// URL with a host")
    return text


AgentUrl = Annotated[str | None, AfterValidator(_usable_url), Setting.ADDRESS]


class CommandAgentConfig(AgentConfig):
    """Settings of an agent that other people wrote.

    - `command`: the command, as a text or a list of words; or `service_url`: the address of its
      service.
    - `env`, `pass_env`: further environment variables; names of variables to pass on.
    - `task_fields`: fields of the row that the agent may read beside the request.
    - `task_parameters`: whether the sampling parameters of the row replace those of the agent.
    - `max_steps`: the most answers of the model in one rollout.
    - `agent_timeout`: seconds for the agent; null: until the deadline of the rollout.
    - `grace_period`: seconds between the request to end and the end by force, at most a tenth of
      the time of the rollout.
    - `exit_statuses`: exit statuses of an agent that did not fail.
    - `work_folder`: where the folders of rollouts are made; null: the system's temporary folder.
    - `keep_folders`: which of them are kept: `never`, `failed` or `always`.
    - `gateway_host`, `gateway_port`, `gateway_url`: where the gateway listens, and how agents reach
      it where that is another address.
    """

    command: str | list[str] | None = None
    service_url: AgentUrl = None
    env: dict[str, str] = Field(default={})
    pass_env: list[str] = Field(default=[])
    task_fields: list[str] = Field(default=[])
    task_parameters: Literal["replace", "ignore"] = "replace"
    max_steps: int = Field(default=1000, ge=1)
    agent_timeout: Annotated[float | None, Setting.TIMING] = Field(default=None, gt=0)
    grace_period: Annotated[float, Setting.TIMING] = Field(default=5.0, ge=0)
    exit_statuses: list[int] = Field(default=[0])
    work_folder: Annotated[Path | None, Setting.ADDRESS] = None
    keep_folders: Annotated[KeepFolders, Setting.TIMING] = "never"
    gateway_host: Annotated[str, Setting.ADDRESS] = "127.0.0.1"
    gateway_port: Annotated[int, Setting.ADDRESS] = Field(default=0, ge=0, le=65535)
    gateway_url: AgentUrl = None

    @model_validator(mode="after")
    def _has_an_agent(self) -> Self:
        if (self.command is None) == (self.service_url is None):
            raise ValueError("give either `command` or `service_url`")
        return self


class CommandAgent(AgentServer):
    """Runs an agent for every rollout, behind the gateway."""

    config: CommandAgentConfig

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        settings = self.config
        self._gateway = Gateway(
            settings.gateway_host,
            settings.gateway_port,
            url=settings.gateway_url,
            largest_request=settings.max_request_bytes,
        )
        self._service = AgentService(settings.service_url) if settings.service_url else None
        self._words: list[str] = []
        self._endings: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Raises RefusedError for a command that cannot be run, and for a port in use."""
        if self.config.command is not None:
            try:
                self._words = split_command(self.config.command, Path.cwd())
            except ValueError as error:
                raise RefusedError(f"`command`: {error}") from error
            if shutil.which(self._words[0]) is None:
                raise RefusedError(f"`command`: there is no program {self._words[0]!r}")
        host, port = self.config.gateway_host, self.config.gateway_port
        try:
            await self._gateway.start()
        except OSError as error:
            raise RefusedError(
                f"the gateway cannot listen on {host} port {port} ({error.strerror}): give another "
                "`gateway_port`; with several processes, give none, so that each finds a free one"
            ) from error
        await super().start()

    async def close(self) -> None:
        await self._gateway.close()
        if self._endings:
            await asyncio.wait(self._endings, timeout=ENDING)
        if self._service is not None:
            await self._service.close()
        await super().close()

    def health(self) -> dict[str, Any]:
        sessions = len(self._gateway.sessions)
        return {**super().health(), "gateway": self._gateway.url, "sessions": sessions}

    async def responses(self, params: dict[str, Any], episode: Episode) -> dict[str, Any]:
        settings = self.config
        tools = params.get("tools")
        session = GatewaySession(
            episode,
            forced=params if settings.task_parameters == "replace" else None,
            tools=tools if isinstance(tools, list) else None,
            limits=SessionLimits(calls=settings.max_steps),
        )
        self._gateway.add(session)
        try:
            failure = await self._run_agent(params, episode.row, session)
        finally:
            self._gateway.end(session)
            episode.output = session.output()
            episode.row_fields[CALLS_FIELD] = session.record()
        error = _failure_of(session, failure)
        if error is not None:
            raise error
        if session.exhausted.is_set():
            episode.stopped_by = "max_steps"
        return session.response()

    async def _run_agent(
        self, params: dict[str, Any], row: Row | None, session: GatewaySession
    ) -> RolloutError | None:
        """Let the agent work on the task; returns its failure, where there is one."""
        left = seconds_left(self.config.request_timeout)
        grace = min(self.config.grace_period, left * LARGEST_GRACE)
        left -= grace + ending_time(left) / 2  # for the end of its processes
        seconds = min(left, self.config.agent_timeout or left)
        task = task_object(params, row, self.config.task_fields)
        if self._service is not None:
            call = ServiceCall(
                rollout=current_rollout(),
                urls=self._urls(session),
                key=session.key,
                prompt=task_text(params),
                task=task,
                timeout=seconds,
            )
            return await self._service.run(call, session.exhausted)
        with rollout_folder(self.config.work_folder, self.config.keep_folders) as folder:
            (folder.path / TASK_FILE).write_bytes(msgspec.json.encode(task))
            prompt = folder.path / PROMPT_FILE
            prompt.write_text(task_text(params), encoding="utf-8", errors="replace")
            return await self._run_command(folder, session, seconds, grace)

    async def _run_command(
        self, folder: RolloutFolder, session: GatewaySession, seconds: float, grace: float
    ) -> RolloutError | None:
        settings, work = self.config, folder.work
        prompt = folder.path / PROMPT_FILE
        environment = inherited_environment(settings.pass_env) | settings.env
        environment |= self._urls(session)
        environment |= {
            "OPENAI_API_KEY": session.key,
            "ANTHROPIC_API_KEY": session.key,
            "ROLLGYM_TASK_FILE": str(folder.path / TASK_FILE),
            "ROLLGYM_PROMPT_FILE": str(prompt),
            "ROLLGYM_WORK_FOLDER": str(work),
            "ROLLGYM_TIMEOUT": f"{seconds:.0f}",
            "PWD": str(work),
        }
        running = await RunningCommand.start(
            self._words,
            folder=work,
            environment=environment,
            standard_input=prompt,
            grace=grace,
        )
        try:
            status, in_time = await _ended(running, session, seconds)
            output, errors = await running.end(grace)
        except BaseException:
            running.abandon()
            ending = asyncio.create_task(running.end(0.0))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
            raise
        ended_well = in_time and status in settings.exit_statuses
        got_nothing = not session.answered and session.lasting_failure is None
        if session.exhausted.is_set() or (ended_well and not got_nothing):
            folder.failed = False
            return None
        said = _said(output, errors)
        if settings.keep_folders != "never":
            said = f" (its folder is {folder.path}){said}"
        if ended_well:
            return AgentError(f"{_no_answer(session)}{said}")
        if not in_time:
            return DeadlineError(f"the agent did not end within {seconds:.3g} s{said}")
        if status is None:
            return AgentError(f"the agent was lost{said}", retryable=True)
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        # A program that is killed was most likely killed by the system, for lack of memory.
        retryable = True if status == _KILLED else None
        return AgentError(f"the agent ended with {how}{said}", retryable=retryable)

    def _urls(self, session: GatewaySession) -> dict[str, str]:
        url = self._gateway.url_of(session)
        return {
            "OPENAI_BASE_URL": f"{url}/v1",
            "ANTHROPIC_BASE_URL": url,
            "ROLLGYM_TOOLS_URL": f"{url}/tools",
        }


async def _ended(
    running: RunningCommand, session: GatewaySession, seconds: float
) -> tuple[int | None, bool]:
    """The exit status, and whether the command ended in time.

    It is asked to end at its deadline, and when it has used up its calls.
    """
    waiting = asyncio.ensure_future(running.wait(seconds))
    exhausted = asyncio.ensure_future(session.exhausted.wait())
    try:
        await asyncio.wait({waiting, exhausted}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done() and running.has_ended:
            return waiting.result(), True
        running.ask_to_end()
        return None, not waiting.done()
    finally:
        for task in (waiting, exhausted):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(waiting, exhausted, return_exceptions=True)


def _failure_of(session: GatewaySession, failure: RolloutError | None) -> RolloutError | None:
    """Why the rollout failed: for the environment, the model or the agent, in this order."""
    if session.tool_failure is not None:
        return session.tool_failure
    model = session.lasting_failure
    if isinstance(model, ModelContextError) and failure is None and session.answered:
        model = None  # the agent went on without it
    if model is not None and not isinstance(failure, DeadlineError):
        return model if failure is None else _with(model, failure)
    if failure is None and not session.answered:
        return AgentError(_no_answer(session))
    return failure


def _no_answer(session: GatewaySession) -> str:
    """What an agent did that ended well and got no answer of the model."""
    made = session.record().made
    what = f"none of its {made} calls of the model was answered" if made else "it made no call"
    text = f"the agent ended well, but {what} of the model at its base URL"
    if session.wrong_keys:
        text += f"; {session.wrong_keys} of its requests did not have the key of the rollout"
    return text


def _with(model: RolloutError, failure: RolloutError) -> RolloutError:
    """The failure of the model, with what the agent said about it."""
    detail = f"{model} ({failure})"
    model.args = (detail,)
    if model.recorded is not None:
        model.recorded = msgspec.structs.replace(model.recorded, detail=shorten(detail))
    return model


def _said(output: str, errors: str) -> str:
    text = errors.strip() or output.strip()
    return f"; it wrote: {text}" if text else "; it wrote nothing"


def task_object(params: dict[str, Any], row: Row | None, fields: Sequence[str]) -> dict[str, Any]:
    """The task as JSON: the parameters, and these fields of the row. Raises TaskError."""
    task = dict(params)
    for name in fields:
        try:
            value = row.get(name, object) if row is not None else None
        except RowError as error:
            raise TaskError(str(error)) from error
        if value is not None:
            task[name] = value
    return task


def task_text(params: dict[str, Any]) -> str:
    """The texts of the messages of a task, with an empty line between them."""
    given = params.get("input")
    texts = [str(params["instructions"])] if params.get("instructions") else []
    if isinstance(given, str):
        texts.append(given)
    items = given if isinstance(given, list) else []
    said = [item for item in items if isinstance(item, dict) and "role" in item]
    texts += [_text(item.get("content")) for item in said]
    return "\n\n".join(filter(None, texts))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(str(text) for text in texts if text)
