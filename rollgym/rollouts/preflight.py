"""The check before the first rollout: whether the model and the environment can be used at all.

A wrong address, key or model name would fail every rollout of the dataset. One cheap call each
finds it in seconds, before anything is collected:

- *Model.* Its list of models. Where the list does not say enough, a request for a few tokens does:
  endpoints without a list, lists without the model (gateways accept names that they do not list),
  keys that may not read it.
- *Environment.* One session for the first row that is left, which is closed again. A server that
  runs elsewhere may not be able to close it, so it is only asked whether it answers.

Only what certainly fails every rollout refuses the collection. An overloaded endpoint, a row that
cannot be seeded, or a foreign server without these routes does not. A model that has not answered
in time may be slow, or still load its weights: the collection begins, with a warning.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from rollgym.records import (
    DeadlineError,
    EnvironmentSessionError,
    ModelAuthError,
    ModelMalformedError,
    ModelRequestError,
    ModelUnavailableError,
    RolloutError,
    Row,
    Task,
)
from rollgym.records.failure import shorten
from rollgym.rollouts import rows
from rollgym.rollouts.output_row import input_row
from rollgym.rollouts.servers import Clients, CollectionServers, ServerDescription
from rollgym.servers.agent import close_session
from rollgym.servers.client import RecoveryWait, ServerClient
from rollgym.servers.context import working_for
from rollgym.servers.exchange import Answer, CookieJar
from rollgym.servers.replicas import NoAnswerError
from rollgym.servers.resources import CLOSABLE_HEADER
from rollgym.store import RefusedError, RunStore, Status

MODEL_TIMEOUT = 11.0
"""Seconds for both calls of a model: a little more than one try to connect may take."""
ENVIRONMENT_TIMEOUT = 30.0
GRACE = 1.0
"""More seconds for a server to say what it had done when its time was over."""
FEWEST_TOKENS = 16
"""The smallest `max_output_tokens` that OpenAI accepts."""
DETAIL = 400
NAMES_SHOWN = 5
_URL = ("openai_base_url", "base_url", "url")
_KEY = ("openai_api_key", "api_key")
_MODEL = ("openai_model", "model")
_PROBE = msgspec.json.encode(
    {"input": [{"role": "user", "content": "Say OK."}], "max_output_tokens": FEWEST_TOKENS}
)
_ENDPOINTS = logging.getLogger("rollgym.servers.endpoints")


class PreflightError(RefusedError):
    """The model or the environment cannot be used, so nothing was collected."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}; {fix}. Nothing was collected; +preflight=false skips this check")


async def preflight(
    servers: CollectionServers,
    clients: Clients,
    agents: Iterable[str],
    store: RunStore,
    recovery: RecoveryWait,
) -> list[str]:
    """Check the servers of these agents; returns notes. Raises PreflightError.

    Does nothing where no rollout of the run is left. A server that does not answer is waited for,
    as rollouts do.
    """
    done = sum(store.progress.count(status) for status in Status) - store.progress.reopened
    if done >= store.inputs.expected:
        return []
    used = [servers.used_by(agent) for agent in agents]
    models = {each.name: each for model, _ in used for each in model}
    environments = {each.name: each for _, environment in used for each in environment}
    notes: list[str] = []
    for model in models.values():
        client = _PreflightClient(clients(model.name).one(), recovery, MODEL_TIMEOUT)
        notes += await _check_model(model, client)
    task = await asyncio.to_thread(_first_left, store)
    seeded = servers.resources_server(rows.agent_name(task.row))
    for environment in environments.values():
        seeds_it = environment.name == seeded and not environment.is_external
        row = input_row(task, 0) if seeds_it else None
        client = _PreflightClient(clients(environment.name).one(), recovery, ENVIRONMENT_TIMEOUT)
        notes += await _check_environment(environment, client, row)
    return notes


class _PreflightClient:
    """Calls a server for at most `seconds` in all, and one that is not there twice.

    Waiting for one that is not there does not count.
    """

    def __init__(self, client: ServerClient, recovery: RecoveryWait, seconds: float) -> None:
        self.client = client
        self._recovery = recovery
        self._left = seconds

    async def call(
        self,
        path: str,
        body: bytes,
        error: type[RolloutError],
        jar: CookieJar | None = None,
        method: str = "POST",
    ) -> Answer:
        """The answer, whatever its status. Raises `error`, and failures that the server reports."""
        try:
            return await self._call(path, body, error, jar, method)
        except RolloutError as raised:
            if not isinstance(raised.__cause__, NoAnswerError):
                raise
            await self._recovery.wait_for(self.client.whole, raised)
            self.client = self.client.whole.one()
        return await self._call(path, body, error, jar, method)

    async def _call(
        self,
        path: str,
        body: bytes,
        error: type[RolloutError],
        jar: CookieJar | None,
        method: str,
    ) -> Answer:
        clock = asyncio.get_running_loop().time
        ends = clock() + self._left
        try:
            with working_for("", ends):
                return await self.client.call(
                    path,
                    body,
                    error=error,
                    jar=jar,
                    within=self._left,
                    grace=GRACE,
                    method=method,
                    any_status=True,
                )
        finally:
            self._left = max(0.0, ends - clock())


def _first_left(store: RunStore) -> Task:
    """The first task with a rollout that has no outcome; else the first of those that run again."""
    first = None
    for task in store.inputs:
        first = first or task
        if any(store.progress.status(task.index, each) is None for each in range(task.repeats)):
            return task
    if first is None:
        raise ValueError("the run has no tasks")
    return first


async def _check_model(model: ServerDescription, client: _PreflightClient) -> list[str]:
    expected, _ = _setting(model.settings, _MODEL)
    with _quiet(_ENDPOINTS), working_for("preflight"):
        try:
            listed = await _models(model, client)
            if listed is not None and (not isinstance(expected, str) or expected in listed):
                return []
            problem = await _probe(client)
        except RolloutError as error:
            if not _is_late(error):
                raise
            note = f"{model.name} did not answer within {MODEL_TIMEOUT:g} s, so its address, key "
            return [f"{note}and model were not checked: {shorten(str(error), DETAIL)}"]
        if problem is not None:
            raise _refusal(model, problem, listed or [])
    return []


async def _models(model: ServerDescription, client: _PreflightClient) -> list[str] | None:
    """The names in the list of models; None where there is none to read. Raises when it is late."""
    try:
        answer = await client.call("/v1/models", b"", ModelUnavailableError, method="GET")
    except RolloutError as error:
        if _is_unreachable(error):
            raise _refusal(model, error, []) from error
        if _is_late(error):
            raise
        return None
    return _names(answer) if answer.ok else None


def _names(answer: Answer) -> list[str] | None:
    try:
        listed = msgspec.json.decode(answer.body)["data"]
        return [str(each["id"]) for each in listed]
    except (ValueError, KeyError, TypeError):
        return None


async def _probe(client: _PreflightClient) -> RolloutError | None:
    """Ask for a few tokens; the error where no request can succeed, and None for any other.

    Raises the error of an answer that is late.
    """
    try:
        answer = await client.call("/v1/responses", _PROBE, ModelUnavailableError)
    except RolloutError as error:
        if _is_hopeless(error):
            return error
        if _is_late(error):
            raise
        return None
    if answer.status in (401, 403):  # of a server that reports errors in its own way
        return ModelAuthError(f"{client.client.name} answered {answer.status}: {answer.text}")
    return None


def _is_unreachable(error: RolloutError) -> bool:
    """Whether there was no connection, at the server or at its endpoint."""
    if isinstance(error.__cause__, NoAnswerError):
        return True
    no_answer = isinstance(error, DeadlineError | ModelUnavailableError)
    return no_answer and "could not connect" in str(error)


def _is_late(error: RolloutError) -> bool:
    return isinstance(error, DeadlineError) or isinstance(error.__cause__, TimeoutError)


def _is_hopeless(error: RolloutError) -> bool:
    if isinstance(error, ModelRequestError):
        return error.upstream is not None and error.upstream.status in (404, 405)
    return isinstance(error, ModelAuthError | ModelMalformedError) or _is_unreachable(error)


def _refusal(model: ServerDescription, error: RolloutError, listed: list[str]) -> PreflightError:
    settings = model.settings
    (_, url), (_, key) = _setting(settings, _URL), _setting(settings, _KEY)
    expected, name = _setting(settings, _MODEL)
    if isinstance(error, ModelAuthError):
        fix = f"correct `{key}`"
    elif isinstance(error, ModelRequestError) and expected:
        known = ", ".join(listed[:NAMES_SHOWN])
        models = f" (its models: {known}{', …' if len(listed) > NAMES_SHOWN else ''})"
        fix = f"correct `{name}`, which is {expected!r}{models if listed else ''}, or `{url}`"
    else:
        fix = f"start the endpoint or correct `{url}`"
    said = shorten(str(error), DETAIL)
    return PreflightError(f"{model.name}: {said}", f"{fix} in the configuration of {model.name}")


def _setting(settings: Mapping[str, Any], names: tuple[str, ...]) -> tuple[Any, str]:
    """The first of the settings that is given, and its name."""
    return next(((settings[name], name) for name in names if settings.get(name)), (None, names[-1]))


async def _check_environment(
    environment: ServerDescription, client: _PreflightClient, row: Row | None
) -> list[str]:
    """Seed a session for the row and close it; without a row, only see whether it answers."""
    jar = CookieJar()
    with working_for("preflight"):
        try:
            if row is None:
                answer = await client.call("/healthz", b"", EnvironmentSessionError, method="GET")
            else:
                answer = await client.call("/seed_session", row.raw, EnvironmentSessionError, jar)
        except RolloutError as error:
            said = shorten(str(error), DETAIL)
            if isinstance(error.__cause__, NoAnswerError):
                fix = "start it or correct its address"
                raise PreflightError(f"{environment.name}: {said}", fix) from error
            return [f"{environment.name}: no session for the first row: {said}"]
        if CLOSABLE_HEADER in answer.headers:
            await close_session(client.client, jar)
    return []


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Log nothing here: a failure becomes one line at the end."""
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False
