"""Prompts whose ids are decoded only where they are new."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records.prompt_ids import PromptReader, decode_besides_prompt

IDS = st.lists(st.integers(0, 2**64 - 1), max_size=12)
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text('"\\prompt_token_ids:[]{},0 ', max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["prompt_token_ids", "x"]), inner, max_size=2)
    ),
    max_leaves=8,
)


def told(value: object) -> object:
    """The value without undecoded parts."""
    return msgspec.json.decode(msgspec.json.encode(value))


@given(whole=st.dictionaries(st.sampled_from(["prompt_token_ids", "x"]), ANY))
def test_an_answer_is_the_same_wherever_it_has_arrays_of_ids(whole: dict[str, object]) -> None:
    found = decode_besides_prompt(msgspec.json.encode(whole), lambda answer: answer)
    assert told(found) == whole


def test_only_the_ids_in_the_part_that_is_named_stay_undecoded() -> None:
    text = b'{"a":{"prompt_token_ids":[1,2]},"b":["prompt_token_ids\\":[",{"x":[3]}]}'
    named = decode_besides_prompt(text, lambda whole: whole["a"])
    assert named["a"] == {"prompt_token_ids": msgspec.Raw(b"[1,2]")}
    assert decode_besides_prompt(text, lambda whole: whole) == msgspec.json.decode(text)
    assert told(named) == msgspec.json.decode(text)


@given(prompts=st.lists(IDS, max_size=6), spaced=st.booleans(), continued=st.booleans())
def test_prompts_are_read_in_any_order(
    prompts: list[list[int]], spaced: bool, continued: bool
) -> None:
    reader, before = PromptReader(), list[int]()
    for prompt in prompts:
        before = [*before, *prompt] if continued else prompt
        text = str(before).encode() if spaced else msgspec.json.encode(before)
        ids = reader.read(msgspec.Raw(text))
        assert list(ids) == before  # type: ignore[call-overload]


def test_what_is_no_array_of_ids_is_given_as_it_is() -> None:
    reader = PromptReader()
    reader.read(msgspec.Raw(b"[1,2]"))
    for other in ([1, 2, -3], [1, 2, 0.5], [1, 2, None], [1, 2, 2**64]):
        assert reader.read(msgspec.Raw(msgspec.json.encode(other))) == other
    assert list(reader.read(msgspec.Raw(b"[1,2,3]"))) == [1, 2, 3]  # type: ignore[call-overload]
