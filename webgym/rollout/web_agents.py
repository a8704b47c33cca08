"""The agent of a configuration."""

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
