"""The agent of a configuration, and the browser sessions in which it acts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webgym.browser.contract.profile import SessionProfile
from webgym.client.client import BrowserClient
from webgym.client.isolation import IsolatedBrowserClient
from webgym.client.sessions import SessionSource, TrackedSessions
from webgym.models.judge_questions import ScreenshotStore
from webgym.models.web_agent import WebAgent
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.rollout.settings import WebRolloutSettings


def web_agent(
    settings: WebRolloutSettings,
    environment: EnvironmentSettings,
    screenshots: ScreenshotStore | None = None,
) -> WebAgent:
    """The agent, with the addresses and limits of `environment`. Raises RefusedError.

    Its judge reads `screenshots`, by default those under the save path.
    """
    return WebAgent(
        policy_config=settings.policy_config,
        context_config=settings.context,
        model_config=settings.model,
        save_path=settings.save_path,
        vllm_server_url=environment.vllm_server_url,
        openai_config=settings.openai_config,
        operation_timeout=environment.operation_timeout,
        vllm_timeout=environment.vllm_timeout,
        max_retries=environment.max_retries,
        max_vllm_sessions=environment.max_vllm_sessions,
        evaluation_workers=environment.evaluation_workers,
        evaluation_timeout=environment.evaluation_timeout,
        screenshots=screenshots,
        embedded_model=settings.embedded_model if "model" in settings.embedded else None,
    )


@asynccontextmanager
async def browser_sessions(
    settings: EnvironmentSettings, token: str | None, sessions: int, profile: SessionProfile
) -> AsyncIterator[SessionSource]:
    """Sessions of the browser server, through this process or isolated client processes.

    Sessions that are still in use at the end are released.
    """
    timeout, pools, url = settings.operation_timeout, settings.http_pools, settings.browser_url
    client: BrowserClient | IsolatedBrowserClient
    if settings.isolation == "process":
        clients = settings.isolation_workers or sessions
        client = IsolatedBrowserClient(url, token, timeout, workers=clients, profile=profile)
    else:
        client = BrowserClient(url, token, timeout, pools.connections, profile)
    async with client:
        tracked = TrackedSessions(client, pools.allocate, pools.release)
        try:
            yield tracked
        finally:
            await tracked.release_all(abandoned=not settings.skip_instance_cleanup)
