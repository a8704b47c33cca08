"""The official `openai` package as a client of the model servers of a real `ng_run`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from responses_api_models.scripted_model.app import MODEL
from rollgym.servers.responses import completion_chunks, response_events
from tests.cases import for_each
from tests.e2e.command import wait_until
from tests.e2e.serving import Serving
from tests.faulty_model import (
    FaultyModel,
    ModelRequest,
    error,
    hang,
    in_background,
    reset,
    stream,
    well_answered,
)
from tests.integration.servers.launch.probe import ProbeRun

openai = pytest.importorskip("openai", reason="install rollgym[dev]")
SERVERS = """
scripted:
  responses_api_models: {{scripted_model: {{entrypoint: app.py, skill: 1.0}}}}
openai:
  responses_api_models:
    openai_model:
      entrypoint: app.py
      openai_base_url: {url}
      openai_model: m
      pool: {{backoff_initial: 0.01, max_retries: 1}}
vllm:
  responses_api_models:
    vllm_model: {{entrypoint: app.py, base_url: {url}, model: m}}
"""
Client = Callable[[str], Any]
TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
WEATHER = "What is the weather like in Paris today?"


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyModel]:
    with in_background(FaultyModel()) as model:
        yield model


@pytest.fixture(scope="module")
def client(upstream: FaultyModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    probes = ProbeRun(tmp_path_factory.mktemp("servers"))
    (probes.folder / "probes.yaml").write_text(SERVERS.format(url=upstream.base_url))
    serving = Serving(probes)
    try:
        with ExitStack() as stack:
            clients = {
                each["name"]: stack.enter_context(
                    openai.OpenAI(base_url=f"{each['url']}/v1", api_key="-", max_retries=0)
                )
                for each in serving.wait_until_ready()
            }
            yield clients.__getitem__
    finally:
        serving.interrupt()
        serving.wait()
        serving.close()


def test_a_finished_response_streams_in_the_order_of_the_api(client: Client) -> None:
    scripted = client("scripted")
    with scripted.responses.stream(model="any", input=WEATHER, tools=[TOOL]) as events:
        seen = [event.type for event in events]
        final = events.get_final_response()
    (call,) = [item for item in final.output if item.type == "function_call"]
    assert (call.name, call.status) == ("get_weather", "completed")
    assert seen[:2] == ["response.created", "response.in_progress"]
    assert seen[-4:] == [
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    whole = scripted.responses.create(model="any", input=WEATHER, tools=[TOOL])
    assert [item.id for item in whole.output] == [item.id for item in final.output]


def test_a_text_streams_with_its_parts(client: Client, upstream: FaultyModel) -> None:
    # The endpoint does not stream: it answers as a whole.
    events = list(client("openai").responses.create(model="any", input="Hi", stream=True))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(9))
    assert events[4].type == "response.output_text.delta"
    assert events[4].delta == "Fine."
    assert upstream.requests[-1].json["stream"] is True


@for_each("server", ["scripted", "openai", "vllm"])
def test_chat_completions_streamed_or_not_say_the_same(client: Client, server: str) -> None:
    messages: Any = [{"role": "user", "content": "What is 2 + 3? Answer in \\boxed{}."}]
    chat = client(server).chat.completions
    whole = chat.create(model="any", messages=messages)
    chunks = list(
        chat.create(
            model="any", messages=messages, stream=True, stream_options={"include_usage": True}
        )
    )
    said = "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)
    assert said == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "stop"
    assert chunks[-1].usage == whole.usage


def test_chat_completions_of_the_scripted_model_call_tools(client: Client) -> None:
    chat, function = client("scripted").chat.completions, {**TOOL}
    function.pop("type")
    messages: list[Any] = [{"role": "user", "content": WEATHER}]
    tools: list[Any] = [{"type": "function", "function": function}]
    answer = chat.create(model="any", messages=messages, tools=tools).choices[0]
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.message.tool_calls
    messages += [answer.message, {"role": "tool", "tool_call_id": call.id, "content": "cold"}]
    last = chat.create(model="any", messages=messages, tools=tools).choices[0]
    assert (last.finish_reason, bool(last.message.content)) == ("stop", True)
    assert client("scripted").models.list().data[0].id == MODEL


def _chunks(path: str) -> list[bytes]:
    finished: Any = well_answered(ModelRequest("POST", path, {}, b"", 0))
    if "chat" in path:
        return list(completion_chunks(finished, with_usage=False))
    return list(response_events(finished))


def test_the_events_of_an_endpoint_that_streams_arrive_when_they_are_sent(
    client: Client, upstream: FaultyModel
) -> None:
    # The endpoint sends no more than the first events, so nothing here waits for the last.
    first = _chunks("/v1/responses")[:5]
    upstream.script.append(stream(*first, then=hang()))
    gone = upstream.disconnects
    with client("openai").responses.create(model="any", input="Hi", stream=True) as events:
        seen = [next(events).type for _ in first]
    assert seen[-1] == "response.output_text.delta"
    # The client has left, and so the endpoint's work ends.
    wait_until(lambda: upstream.disconnects > gone)
    upstream.script.append(stream(*_chunks("/v1/chat/completions")))
    chat = client("vllm").chat.completions.create(model="any", messages=[], stream=True)
    assert [each.choices[0].delta.content for each in chat] == ["", "Fine.", None]


def test_a_stream_that_breaks_off_is_an_error(client: Client, upstream: FaultyModel) -> None:
    for path in ("/v1/chat/completions", "/v1/responses"):
        whole, half = _chunks(path)[:2]
        upstream.script.append(stream(whole, half[:20], then=reset()))
        asked: Any = (
            client("openai").responses.create(model="any", input="Hi", stream=True)
            if path == "/v1/responses"
            else client("openai").chat.completions.create(model="any", messages=[], stream=True)
        )
        with pytest.raises(openai.APIError, match="after the stream had begun"):
            list(asked)


def test_errors_of_the_endpoint_keep_their_status_and_names(
    client: Client, upstream: FaultyModel
) -> None:
    for streamed in (False, True):
        upstream.script.append(
            error(
                404,
                "The model `m` does not exist",
                type="invalid_request_error",
                param="model",
                code="model_not_found",
            )
        )
        with pytest.raises(openai.NotFoundError, match="does not exist") as caught:
            client("openai").responses.create(model="any", input="Hi", stream=streamed)
        raised = caught.value
        assert (raised.code, raised.param, raised.type) == (
            "model_not_found",
            "model",
            "invalid_request_error",
        )
    upstream.script.append(error(401, "Incorrect API key", code="invalid_api_key"))
    with pytest.raises(openai.AuthenticationError) as refused:
        client("vllm").chat.completions.create(model="any", messages=[])
    assert refused.value.code == "invalid_api_key"
    with pytest.raises(openai.BadRequestError, match="`stream` must be true or false"):
        client("scripted").responses.create(model="any", input="Hi", extra_body={"stream": 1})
