"""Conversations and broken JSON for the property tests."""

from typing import Any

from hypothesis import strategies as st

JsonObject = dict[str, Any]

texts = st.text(st.characters(codec="utf-8"), max_size=20)
words = st.text("abcdefghij_", min_size=1, max_size=8)
image_urls = st.sampled_from(["data:image/png;base64,iVBORw0KGgo=", "https://example.org/a.png"])

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)

tool_calls = st.builds(
    lambda identity, name, arguments: {
        "id": identity,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    words,
    words,
    # A model may write anything for arguments.
    texts | st.just('{"city": "Berlin"}'),
)


@st.composite
def assistant_messages(draw: st.DrawFn) -> JsonObject:
    """What a chat endpoint answers with: any mix of reasoning, text, refusal and calls."""
    message: JsonObject = {"role": "assistant", "content": draw(st.none() | texts)}
    if draw(st.booleans()):
        message["reasoning_content"] = draw(texts)
    if draw(st.booleans()):
        message["refusal"] = draw(st.none() | texts)
    if draw(st.booleans()):
        message["tool_calls"] = draw(st.lists(tool_calls, max_size=3))
    return message


responses_parts = st.one_of(
    st.builds(lambda text: {"type": "input_text", "text": text}, texts),
    st.builds(
        lambda url, detail: {"type": "input_image", "image_url": url, "detail": detail},
        image_urls,
        st.sampled_from(["auto", "low", "high"]),
    ),
)
responses_contents = texts | st.lists(responses_parts, min_size=1, max_size=3)


def completion_of(message: JsonObject, **choice: Any) -> JsonObject:
    """A chat completion whose only choice is `message`."""
    return {
        "id": "chatcmpl-42",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "served-model",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


@st.composite
def damaged(draw: st.DrawFn, whole: Any) -> Any:
    """`whole` with one value, anywhere in it, replaced by other JSON."""
    places = list(_places(whole))
    path = draw(st.sampled_from(places))
    return _replaced(whole, path, draw(json_values))


def _places(value: Any) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        inner = [(key, *path) for key in value for path in _places(value[key])]
    elif isinstance(value, list):
        inner = [(index, *path) for index in range(len(value)) for path in _places(value[index])]
    else:
        inner = []
    return [(), *inner]


def _replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], other)
    return copy
