"""Our model server and our web agents against a real vLLM, with tiny random models.

`make test-vllm` runs this; it makes an environment with vLLM for the CPU (scripts/torch_env.sh).
What the models say means nothing, so the tests force what has to be said with a grammar.
"""

import asyncio
import base64
import json
import os
import struct
import subprocess
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from responses_api_models.vllm_model.app import VllmModel, VllmModelConfig
from rollgym.records import ModelContextError
from rollgym.servers import Response
from rollgym.servers.testing import reached
from tests.builders import read_json_lines
from tests.e2e.command import Ended, start, wait_until
from tests.vllm.server import START_TIMEOUT, VllmServer
from webgym.models.chat_model import ChatModel, ChatSettings
from webgym.models.endpoints import FoundryEndpoint

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]

REPOSITORY = Path(__file__).parents[2]
PYTHON = os.environ.get("ROLLGYM_VLLM_PYTHON", "")
CITIES = ("Paris", "Rome")
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": list(CITIES)}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,  # without it the grammar of vLLM allows any arguments
}
FORCED = {"type": "function", "name": "get_weather"}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    made = subprocess.run(
        [PYTHON, Path(__file__).with_name("make_models.py"), folder],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="module")
def text_model(models: Path) -> Iterator[VllmServer]:
    with VllmServer(Path(PYTHON), models / "text", models / "text.log") as server:
        yield server


def config(server: VllmServer, **settings: Any) -> VllmModelConfig:
    known = {"base_url": server.url, "api_key": None, "model": server.name}
    return VllmModelConfig.model_validate(known | settings)


def asked(server: VllmServer, *requests: Json, **settings: Any) -> list[Json]:
    """The responses of our model server to these requests, one after the other."""

    async def ask() -> list[Json]:
        async with reached(VllmModel("policy_model", config(server, **settings))) as client:
            answers = [await client.post("/v1/responses", request) for request in requests]
        assert [answer.status for answer in answers] == [200] * len(answers), answers[-1].text
        return [msgspec.json.decode(answer.body) for answer in answers]

    return asyncio.run(ask())


def test_a_forced_tool_call_and_its_result_make_a_conversation(text_model: VllmServer) -> None:
    question: Json = {"role": "user", "content": "What is the weather in Rome?"}
    first_request: Json = {
        "input": [question],
        "tools": [WEATHER],
        "max_output_tokens": 200,
        "tool_choice": FORCED,
        "temperature": 1.0,
        "seed": 3,
    }
    (first,) = asked(text_model, first_request)
    call = Response.of(first).function_calls[0]
    assert call.name == "get_weather"
    assert json.loads(call.arguments)["city"] in CITIES
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    conversation = [question, *first["output"], output]
    (second,) = asked(
        text_model,
        {"input": conversation, "tools": [WEATHER], "max_output_tokens": 8, "ignore_eos": True},
    )
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    assert second["status"] == "incomplete"
    assert second["incomplete_details"] == {"reason": "max_output_tokens"}


def test_every_answer_has_its_exact_tokens(text_model: VllmServer) -> None:
    request: Json = {"input": "Hello", "max_output_tokens": 12, "temperature": 1.0, "seed": 5}
    once, again = asked(text_model, request, request, return_token_id_information=True)
    (item,) = once["output"]
    ids, logprobs = item["generation_token_ids"], item["generation_log_probs"]
    assert len(ids) == len(logprobs) == once["usage"]["output_tokens"]
    assert len(item["prompt_token_ids"]) == once["usage"]["input_tokens"]
    assert all(each <= 0 for each in logprobs)
    assert again["output"][0]["generation_token_ids"] == ids


def test_a_turn_can_continue_from_the_tokens_of_the_turn_before(text_model: VllmServer) -> None:
    settings = {"continue_from_tokens": True}
    question: Json = {"role": "user", "content": "Hello"}
    sampling: Json = {"max_output_tokens": 16, "temperature": 1.0, "seed": 8}
    (first,) = asked(text_model, {"input": [question], **sampling}, **settings)
    conversation = [question, *first["output"], {"role": "user", "content": "Go on"}]
    (second,) = asked(text_model, {"input": conversation, **sampling}, **settings)
    before, after = first["output"][-1], second["output"][-1]
    whole = before["prompt_token_ids"] + before["generation_token_ids"]
    assert after["prompt_token_ids"][: len(whole)] == whole
    assert len(after["prompt_token_ids"]) > len(whole)


def test_a_prompt_beyond_the_context_is_a_typed_failure(text_model: VllmServer) -> None:
    async def ask() -> None:
        async with reached(VllmModel("policy_model", config(text_model))) as client:
            body = msgspec.json.encode({"input": "sunny " * 20_000})
            await client.call("/v1/responses", body, error=ModelContextError)

    with pytest.raises(ModelContextError):
        asyncio.run(ask())


def test_an_abandoned_request_is_aborted_in_vllm(text_model: VllmServer) -> None:
    """It would go on for thousands of tokens."""
    request = {"input": "Hello", "max_output_tokens": 16_000, "ignore_eos": True}

    async def abandon() -> None:
        async with reached(VllmModel("policy_model", config(text_model))) as client:
            asking = asyncio.ensure_future(client.post("/v1/responses", request))
            while not await asyncio.to_thread(text_model.running_requests):
                assert not asking.done()
                await asyncio.sleep(0.05)
            asking.cancel()
            await asyncio.wait({asking})

    asyncio.run(abandon())
    wait_until(lambda: text_model.running_requests() == 0)


def test_a_server_that_is_killed_in_mid_run_costs_attempts_and_no_rollouts(
    text_model: VllmServer, tmp_path: Path
) -> None:
    inputs = [
        {
            "responses_create_params": {"input": f"Is {number} even? A: yes, B: no"},
            "options": [{"A": "yes"}, {"B": "no"}],
            "expected_answer": "A",
        }
        for number in range(24)
    ]
    tmp_path.joinpath("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in inputs))
    command = [
        *("collect", "--agent", "mcqa_simple_agent", "--concurrency", "4"),
        *("--input", "in.jsonl", "--output", "out.jsonl"),
        *("--model-url", text_model.url, "--model", text_model.name),
        *("--config", str(REPOSITORY / "resources_servers/mcqa/configs/mcqa.yaml")),
        "+responses_create_params.max_output_tokens=1000",
        "+responses_create_params.ignore_eos=true",
    ]
    collecting = start(tmp_path, *command)
    wait_until(lambda: any(path.read_text().count("\n") >= 4 for path in journals_of(tmp_path)))
    text_model.kill()
    restarting = threading.Timer(3.0, text_model.start)
    restarting.start()
    try:
        ended = ended_of(collecting)
    finally:
        restarting.join()
    while ended.status not in (0, 3):  # stopped while the server was away: the same command goes on
        ended = ended_of(start(tmp_path, *command))
    if ended.status == 3:
        ended = ended_of(start(tmp_path, *command, "--retry-failed"))
    assert ended.status == 0, ended.text
    rollouts = read_json_lines(tmp_path / "out.jsonl")
    assert sorted(row["_ng_task_index"] for row in rollouts) == list(range(24))
    failures = read_json_lines(tmp_path / "out_failures.jsonl")
    assert failures
    assert {row["failure"]["kind"] for row in failures} == {"model_unavailable"}
    assert not any("reward" in row for row in failures)


def ended_of(command: "subprocess.Popen[str]") -> Ended:
    """What a command left that may have waited for vLLM to start again."""
    with command:
        stdout, stderr = command.communicate(timeout=START_TIMEOUT)
    return Ended(command.returncode, stdout, stderr)


def journals_of(folder: Path) -> list[Path]:
    return list(folder.rglob("journal*.jsonl"))


def png(width: int, height: int) -> bytes:
    """A grey picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    lines = (b"\x00" + b"\x80\x80\x80" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def test_images_reach_a_vision_model_from_both_front_ends(models: Path) -> None:
    url = "data:image/png;base64," + base64.b64encode(png(112, 84)).decode()
    with VllmServer(Path(PYTHON), models / "vision", models / "vision.log") as server:
        picture = {"type": "input_image", "image_url": url, "detail": "auto"}
        words = {"type": "input_text", "text": "What is this?"}

        def request(*parts: Json) -> Json:
            return {"input": [{"role": "user", "content": list(parts)}], "max_output_tokens": 4}

        with_image, without = asked(server, request(words, picture), request(words))
        # 112 by 84 pixels are 4 by 3 tokens of the model.
        assert with_image["usage"]["input_tokens"] >= without["usage"]["input_tokens"] + 12

        async def complete() -> int:
            endpoint = FoundryEndpoint(name="vision", base_url=server.url)
            model = ChatModel([endpoint], ChatSettings(model=server.name, tokens=True))
            content = [
                {"type": "text", "text": "Act"},
                {"type": "image_url", "image_url": {"url": url}},
            ]
            try:
                completion = await model.complete(
                    [{"role": "user", "content": content}], {"max_tokens": 4}, within=120
                )
            finally:
                await model.close()
            assert completion.tokens is not None
            return completion.usage.input_tokens

        assert asyncio.run(complete()) > 12
