"""Checks before a rollout starts: the token, the judge, the browser server, the model.

Servers may still be starting, so the run waits for them for a while. All missing ones are reported
at once.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout

from rollgym.cli.process import say_error
from rollgym.records import BrowserUnavailableError, DeadlineError, Row
from rollgym.servers.access import is_loopback
from rollgym.store import RefusedError
from webgym.browser.contract.errors import UnauthorizedError
from webgym.client.client import BrowserClient
from webgym.models.endpoints import FoundryEndpoint
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.tasks.task import WebTask

TRY_SECONDS = 10.0
PAUSE_SECONDS = 0.5
QUIET_SECONDS = 3.0

Endpoints = Sequence[FoundryEndpoint]


class UnpreparedError(RefusedError):
    """A server or a credential of the rollout is missing; nothing was started."""


class BrowserServerAddress(NamedTuple):
    """The address of the browser server, and its token."""

    url: str
    token: str | None
    token_variable: str


def find_token(settings: EnvironmentSettings, *, required: bool) -> str | None:
    """The browser server's token, if it is set.

    Raises UnpreparedError where it is `required` and the server is on another machine.
    """
    variable = settings.cpu_cluster_token_env_var
    token = os.environ.get(variable, "").strip() or None
    if token is None and required and not is_loopback(settings.host_ip):
        raise UnpreparedError(
            f"the browser server at {settings.host_ip} needs a token, but {variable} is not set: "
            f"export {variable} with the token that the server was started with"
        )
    return token


def require_judge(tasks: Iterable[Row], *, has_judge: bool) -> None:
    """Raise UnpreparedError where a task has no check of its own and there is no judge."""
    if has_judge:
        return
    for row in tasks:
        task = WebTask.of(row, "")
        if task.verifier is None:
            raise UnpreparedError(
                f"task {task.task_id} ({task.task_name:.80}) needs a judge, but none is "
                "configured: set openai_config.model and openai_config.base_url"
            )


async def require_servers(
    browsers: BrowserServerAddress,
    models: Endpoints,
    within: float,
    judges: Sequence[Endpoints] = (),
) -> None:
    """Wait until the browser server, the model and each judge respond.

    Of several endpoints of a model one must respond. Raises UnpreparedError, EndpointError.
    """
    deadline = asyncio.get_running_loop().time() + within
    groups = [(_MODEL, models), *((_JUDGE, judge) for judge in judges)]
    browser_problem, model_problems = await asyncio.gather(
        _browser_problem(browsers, deadline),
        asyncio.gather(*(_endpoint_problems(kind, each, deadline) for kind, each in groups)),
    )
    problems = [browser_problem] if browser_problem else []
    notes: list[str] = []
    for (_, endpoints), found in zip(groups, model_problems, strict=True):
        (problems if len(found) == len(endpoints) else notes).extend(found)
    if problems:
        raise UnpreparedError("\n".join(dict.fromkeys(problems)))
    for note in dict.fromkeys(notes):
        say_error(f"note: {note}; the other endpoints are used")


class _ModelRole(NamedTuple):
    """The role of a model, and its settings."""

    name: str
    key_setting: str
    address_advice: str


_MODEL = _ModelRole(
    "the model",
    "policy_config.api_key_env_var",
    "set env_config.vllm_server_url, or replay recorded solutions with embedded=[scripted]",
)
_JUDGE = _ModelRole(
    "the judge",
    "openai_config.openai_api_key_env_var",
    "set openai_config.base_url",
)


class _Unavailable(NamedTuple):
    """Why a server cannot be used; `lasting` where waiting does not help."""

    reason: str
    lasting: bool = False


async def _browser_problem(server: BrowserServerAddress, deadline: float) -> str | None:
    async def ask() -> _Unavailable | None:
        try:
            async with BrowserClient(server.url, server.token, TRY_SECONDS) as client:
                await client.info()
        except UnauthorizedError as error:
            return _Unavailable(str(error), lasting=True)
        except (BrowserUnavailableError, DeadlineError) as error:
            return _Unavailable(str(error))
        return None

    what = f"the browser server at {server.url}"
    found = await _until(ask, what, deadline)
    if found is None:
        return None
    if found.lasting:
        return (
            f"{what} rejects the token: export {server.token_variable} with the token that it was "
            f"started with ({found.reason})"
        )
    return (
        f"{what} cannot be reached: {found.reason}; set env_config.host_ip and "
        "env_config.master_port, or start a server with embedded=[browser]"
    )


async def _endpoint_problems(role: _ModelRole, endpoints: Endpoints, deadline: float) -> list[str]:
    """The problems of the endpoints that do not respond."""
    checks = (_endpoint_problem(role, endpoint, deadline) for endpoint in endpoints)
    return [problem for problem in await asyncio.gather(*checks) if problem]


async def _endpoint_problem(
    role: _ModelRole, endpoint: FoundryEndpoint, deadline: float
) -> str | None:
    key = endpoint.settings().api_key
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}

    async def ask() -> _Unavailable | None:
        try:
            async with (
                ClientSession(timeout=ClientTimeout(total=TRY_SECONDS), headers=headers) as session,
                session.get(f"{endpoint.base_url}/models") as answer,
            ):
                status = answer.status
        except (ClientError, TimeoutError, ValueError) as error:
            return _Unavailable(str(error) or type(error).__name__)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return _Unavailable(f"it responds with status {status}")
        rejected = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        return _Unavailable(f"it responds with status {status}", lasting=True) if rejected else None

    what = f"{role.name} at {endpoint.name}"
    found = await _until(ask, what, deadline)
    if found is None:
        return None
    if found.lasting:
        return (
            f"{what} rejects the key ({found.reason}): set {role.key_setting} to the variable that "
            "has the key"
        )
    return f"{what} cannot be reached: {found.reason}; {role.address_advice}"


async def _until(
    ask: Callable[[], Awaitable[_Unavailable | None]], what: str, deadline: float
) -> _Unavailable | None:
    """Repeat a check until it succeeds or until the deadline; the last problem."""
    loop = asyncio.get_running_loop()
    quiet_until = loop.time() + QUIET_SECONDS
    while True:
        found = await ask()
        if found is None or found.lasting or loop.time() + PAUSE_SECONDS >= deadline:
            return found
        if loop.time() > quiet_until:
            left = deadline - loop.time()
            say_error(f"waiting up to {left:.0f} more seconds for {what} ({found.reason:.200})")
            quiet_until = deadline
        await asyncio.sleep(PAUSE_SECONDS)
