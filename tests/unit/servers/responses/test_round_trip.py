"""Converting chat to Responses and back loses nothing."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollgym.servers.responses import (
    JsonObject,
    chat_request,
    chat_transcript,
    response_from_chat,
)
from tests.unit.servers.responses.strategies import (
    assistant_messages,
    completion_of,
    responses_contents,
    texts,
)


def meaning(message: JsonObject) -> tuple[str, str, str, list[JsonObject]]:
    """What an assistant's chat message says, whether absent, null or empty is written."""
    return (
        message.get("reasoning_content") or "",
        message.get("content") or "",
        message.get("refusal") or "",
        message.get("tool_calls") or [],
    )


def chat_parts(content: Any) -> list[Any]:
    """Content as the list of its parts, however few they are."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@st.composite
def episodes(draw: st.DrawFn) -> list[tuple[Any, JsonObject, list[str]]]:
    """Turns: what the user says, what the model answers, what each tool returns."""
    turns = []
    for _ in range(draw(st.integers(1, 4))):
        message = draw(assistant_messages())
        results = [draw(texts) for _ in message.get("tool_calls") or ()]
        turns.append((draw(responses_contents), message, results))
    return turns


@given(turns=episodes())
def test_a_history_of_responses_becomes_the_chat_that_the_model_answered_in(
    turns: list[tuple[Any, JsonObject, list[str]]],
) -> None:
    history: list[JsonObject] = []
    for said, message, results in turns:
        history.append({"role": "user", "content": said})
        response = response_from_chat(completion_of(message), {"input": history})
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        history += response["output"]
        history += [
            {"type": "function_call_output", "call_id": call["call_id"], "output": result}
            for call, result in zip(calls, results, strict=True)
        ]
    messages = iter(chat_request({"input": history})["messages"])
    for said, message, results in turns:
        assert_says(next(messages), said)
        assert meaning(next(messages)) == meaning(message)
        for call, result in zip(message.get("tool_calls") or (), results, strict=True):
            assert next(messages) == {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": result,
            }
    assert next(messages, None) is None


def assert_says(message: JsonObject, said: Any) -> None:
    assert message["role"] == "user"
    parts = [{"type": "input_text", "text": said}] if isinstance(said, str) else said
    assert len(parts) == len(chat_parts(message["content"]))
    for part, sent in zip(parts, chat_parts(message["content"]), strict=True):
        if part["type"] == "input_text":
            assert sent == {"type": "text", "text": part["text"]}
        else:
            image = {"url": part["image_url"], "detail": part["detail"]}
            assert sent == {"type": "image_url", "image_url": image}


plain_texts = texts.filter(lambda text: "think>" not in text)


@given(reasoning=plain_texts.filter(bool), text=plain_texts)
def test_reasoning_in_the_text_comes_back_to_the_text(reasoning: str, text: str) -> None:
    written = f"<think>{reasoning}</think>{text}"
    response = response_from_chat(completion_of({"content": written}), {}, think_tags=True)
    (message,) = chat_request({"input": response["output"]}, think_tags=True)["messages"]
    assert message == {"role": "assistant", "content": written}


@given(message=assistant_messages())
def test_a_transcript_tells_all_that_the_model_did(message: JsonObject) -> None:
    entries = chat_transcript(response_from_chat(completion_of(message), {})["output"])
    told = {
        "reasoning_content": "".join(entry.get("reasoning", "") for entry in entries),
        "content": "".join(entry.get("content", "") for entry in entries),
        "refusal": "".join(entry.get("refusal", "") for entry in entries),
        "tool_calls": [call for entry in entries for call in entry.get("tool_calls", ())],
    }
    assert meaning(told) == meaning(message)
