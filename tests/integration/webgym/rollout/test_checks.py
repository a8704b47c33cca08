"""What a rollout needs is looked for before it starts, and what is missing is told at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from aiohttp import web

from rollgym.records import Row
from webgym.models.endpoints import FoundryEndpoint, read_endpoints
from webgym.rollout.checks import (
    BrowserServerAddress,
    UnpreparedError,
    find_token,
    require_judge,
    require_servers,
)
from webgym.rollout.environment_settings import EnvironmentSettings

NOWHERE = "http://127.0.0.1:9"
TOKEN = "secret"
Answer = Callable[[web.Request], web.Response]


@asynccontextmanager
async def answering(route: str, answer: Answer) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    application = web.Application()
    application.router.add_get(route, handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def browsers() -> AbstractAsyncContextManager[str]:
    def info(request: web.Request) -> web.Response:
        if request.headers.get("x-api-key") != TOKEN:
            message = "the token is wrong"
            error = {"type": "unauthorized", "message": message}
            body = {"status": "error", "message": message, "error": error}
            return web.json_response(body, status=401)
        return web.json_response({"nodes": []})

    return answering("/info", info)


def model(*statuses: int) -> AbstractAsyncContextManager[str]:
    """Answers with each status in turn, and then with the last."""
    left = list(statuses)

    def models(_: web.Request) -> web.Response:
        return web.json_response({"data": []}, status=left.pop(0) if len(left) > 1 else left[0])

    return answering("/v1/models", models)


def at(*urls: str) -> tuple[FoundryEndpoint, ...]:
    return read_endpoints(list(urls))


def server(url: str, token: str | None = TOKEN) -> BrowserServerAddress:
    return BrowserServerAddress(url, token, "CPU_CLUSTER_TOKEN")


def check(*, token: str | None = TOKEN, statuses: tuple[int, ...] = (200,)) -> None:
    async def run() -> None:
        async with browsers() as browser_url, model(*statuses) as model_url:
            await require_servers(server(browser_url, token), at(model_url), within=60.0)

    asyncio.run(run())


def test_servers_that_answer_are_enough() -> None:
    check()


def test_a_server_without_a_list_of_models_is_there_all_the_same() -> None:
    check(statuses=(404,))


def test_a_model_that_is_still_loading_is_waited_for() -> None:
    check(statuses=(503, 503, 200))


def test_a_wrong_token_is_told_without_waiting() -> None:
    with pytest.raises(UnpreparedError, match="rejects the token: export CPU_CLUSTER_TOKEN"):
        check(token="other")


def test_a_wrong_key_is_told_without_waiting() -> None:
    with pytest.raises(UnpreparedError, match=r"rejects the key \(it responds with status 401\)"):
        check(statuses=(401,))


def test_everything_that_is_away_is_told_at_once() -> None:
    with pytest.raises(UnpreparedError) as caught:
        asyncio.run(require_servers(server(NOWHERE), at(NOWHERE), within=0.1))
    browser_line, model_line = str(caught.value).splitlines()
    assert "embedded=[browser]" in browser_line
    assert "env_config.vllm_server_url" in model_line


def test_one_of_several_models_may_be_away(capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        async with browsers() as browser_url, model(200) as model_url:
            await require_servers(server(browser_url), at(NOWHERE, model_url), within=0.1)

    asyncio.run(run())
    assert "the other endpoints are used" in capsys.readouterr().err


def check_judge(*statuses: int) -> None:
    """With one judge that answers, and one with these statuses."""

    async def run() -> None:
        async with browsers() as browser_url, model(200) as model_url, model(*statuses) as judge:
            judges = (at(model_url), at(judge))
            await require_servers(server(browser_url), at(model_url), 3.0, judges)

    asyncio.run(run())


def test_every_judge_has_to_answer() -> None:
    check_judge(503, 200)
    with pytest.raises(
        UnpreparedError,
        match=r"the judge at .* it responds with status 500; set openai_config\.base",
    ):
        check_judge(500)


def test_the_key_of_a_judge_is_that_of_its_own_setting() -> None:
    with pytest.raises(UnpreparedError, match=r"set openai_config\.openai_api_key_env_var"):
        check_judge(401)


def environment(**given: object) -> EnvironmentSettings:
    return EnvironmentSettings.model_validate(given)


def test_the_token_is_that_of_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", f" {TOKEN}\n")
    settings = environment(cpu_cluster_token_env_var="MY_TOKEN", host_ip="10.0.0.1")
    assert find_token(settings, required=True) == TOKEN


def test_a_server_on_another_machine_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CPU_CLUSTER_TOKEN", raising=False)
    with pytest.raises(UnpreparedError, match="CPU_CLUSTER_TOKEN is not set"):
        find_token(environment(host_ip="10.0.0.1"), required=True)
    assert find_token(environment(host_ip="10.0.0.1"), required=False) is None
    assert find_token(environment(), required=True) is None


def test_a_task_without_a_truth_of_its_own_needs_a_judge() -> None:
    known = Row.of({"task_id": "a", "task_name": "x", "website": "http://a", "verifier": "sites"})
    unknown = Row.of({"task_id": "b", "task_name": "find it", "website": "http://b"})
    require_judge([known], has_judge=False)
    require_judge([known, unknown], has_judge=True)
    with pytest.raises(UnpreparedError, match=r"task b \(find it\) needs a judge"):
        require_judge([known, unknown], has_judge=False)
