"""What must be there before a rollout starts: the token, the judge, the browser server, the model.

Servers may be about to come up, so they are waited for, for a while. What is missing then is told
all at once, because whoever starts one server and tries again should not hear of the next only
then.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout

from rollgym.cli.process import say_error
from rollgym.records import BrowserUnavailableError, DeadlineError, Row
from rollgym.servers.config import is_loopback
from rollgym.store import RefusedError
from webgym.browser.contract.errors import UnauthorizedError
from webgym.client.client import BrowserClient
from webgym.models.endpoints import FoundryEndpoint
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.tasks import WebTask

TRY_SECONDS = 10.0
PAUSE_SECONDS = 0.5
QUIET_SECONDS = 3.0

Endpoints = Sequence[FoundryEndpoint]


class UnpreparedError(RefusedError):
    """Something that the rollout needs is not there; nothing was started."""


class BrowserServer(NamedTuple):
    """Where browsers come from."""

    url: str
    token: str | None
    token_variable: str


def find_token(settings: EnvironmentSettings, *, required: bool) -> str | None:
    """The browser server's token, if there is one.

    Raises UnpreparedError where it is `required`, because the server is on another machine.
    """
    variable = settings.cpu_cluster_token_env_var
    token = os.environ.get(variable, "").strip() or None
    if token is None and required and not is_loopback(settings.host_ip):
        raise UnpreparedError(
            f"the browser server at {settings.host_ip} wants a token, and {variable} is not set: "
            f"export {variable}=…, the one that the server was started with"
        )
    return token


def require_judge(tasks: Iterable[Row], *, has_judge: bool) -> None:
    """Raises UnpreparedError where a task has no truth of its own, and nobody would judge it."""
    if has_judge:
        return
    for row in tasks:
        task = WebTask.of(row, "")
        if task.verifier is None:
            raise UnpreparedError(
                f"task {task.task_id} ({task.task_name:.80}) needs a judge, and there is none: "
                "give openai_config.model=… and openai_config.base_url=…"
            )


async def require_servers(
    browsers: BrowserServer,
    models: Endpoints,
    within: float,
    judges: Sequence[Endpoints] = (),
) -> None:
    """Return when the browser server and the model answer, and each judge.

    Of a model that is in several places one has to answer. Raises UnpreparedError, EndpointError.
    """
    deadline = asyncio.get_running_loop().time() + within
    asked = [(_MODEL, models), *((_JUDGE, judge) for judge in judges)]
    of_browsers, of_models = await asyncio.gather(
        _trouble_with_browsers(browsers, deadline),
        asyncio.gather(*(_troubles_with(kind, places, deadline) for kind, places in asked)),
    )
    problems = [of_browsers] if of_browsers else []
    spared: list[str] = []
    for (_, endpoints), troubles in zip(asked, of_models, strict=True):
        (problems if len(troubles) == len(endpoints) else spared).extend(troubles)
    if problems:
        raise UnpreparedError("\n".join(dict.fromkeys(problems)))
    for trouble in dict.fromkeys(spared):
        say_error(f"note: {trouble}; the other endpoints go on without it")


class _Kind(NamedTuple):
    """A model to be asked, and the settings that are about it."""

    name: str
    key_setting: str
    place_advice: str


_MODEL = _Kind(
    "the model",
    "policy_config.api_key_env_var",
    "env_config.vllm_server_url says where it is, embedded=[scripted] replays recorded solutions",
)
_JUDGE = _Kind(
    "the judge",
    "openai_config.openai_api_key_env_var",
    "openai_config.base_url says where it is",
)


class _Trouble(NamedTuple):
    """Why a server cannot be used; `lasting` where waiting does not help."""

    reason: str
    lasting: bool = False


async def _trouble_with_browsers(server: BrowserServer, deadline: float) -> str | None:
    async def ask() -> _Trouble | None:
        try:
            async with BrowserClient(server.url, server.token, TRY_SECONDS) as client:
                await client.info()
        except UnauthorizedError as error:
            return _Trouble(str(error), lasting=True)
        except (BrowserUnavailableError, DeadlineError) as error:
            return _Trouble(str(error))
        return None

    what = f"the browser server at {server.url}"
    trouble = await _until(ask, what, deadline)
    if trouble is None:
        return None
    if trouble.lasting:
        return (
            f"{what} does not take the token: export {server.token_variable}=…, the one that it "
            f"was started with ({trouble.reason})"
        )
    return (
        f"{what} cannot be reached: {trouble.reason}; env_config.host_ip and "
        "env_config.master_port say where it is, embedded=[browser] gives the run its own"
    )


async def _troubles_with(kind: _Kind, endpoints: Endpoints, deadline: float) -> list[str]:
    """That of each endpoint which has one."""
    asked = (_trouble_with(kind, endpoint, deadline) for endpoint in endpoints)
    return [trouble for trouble in await asyncio.gather(*asked) if trouble]


async def _trouble_with(kind: _Kind, endpoint: FoundryEndpoint, deadline: float) -> str | None:
    key = endpoint.settings().api_key
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}

    async def ask() -> _Trouble | None:
        try:
            async with (
                ClientSession(timeout=ClientTimeout(total=TRY_SECONDS), headers=headers) as session,
                session.get(f"{endpoint.base_url}/models") as answer,
            ):
                status = answer.status
        except (ClientError, TimeoutError, ValueError) as error:
            return _Trouble(str(error) or type(error).__name__)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return _Trouble(f"it answers {status}")
        refused = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        return _Trouble(f"it answers {status}", lasting=True) if refused else None

    what = f"{kind.name} at {endpoint.name}"
    trouble = await _until(ask, what, deadline)
    if trouble is None:
        return None
    if trouble.lasting:
        return (
            f"{what} does not take the key ({trouble.reason}): give {kind.key_setting}=…, the "
            "variable that has it"
        )
    return f"{what} cannot be reached: {trouble.reason}; {kind.place_advice}"


async def _until(
    ask: Callable[[], Awaitable[_Trouble | None]], what: str, deadline: float
) -> _Trouble | None:
    """Ask until there is no trouble any more, or until the deadline; the last trouble."""
    loop = asyncio.get_running_loop()
    quiet_until = loop.time() + QUIET_SECONDS
    while True:
        trouble = await ask()
        if trouble is None or trouble.lasting or loop.time() + PAUSE_SECONDS >= deadline:
            return trouble
        if loop.time() > quiet_until:
            left = deadline - loop.time()
            say_error(f"waiting for {what} for up to {left:.0f} s more ({trouble.reason:.200})")
            quiet_until = deadline
        await asyncio.sleep(PAUSE_SECONDS)
