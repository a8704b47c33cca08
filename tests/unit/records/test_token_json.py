"""Tokens in JSON, which are decoded only where they are new."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import ModelMalformedError
from rollgym.records.token_json import TokenReader, decode_besides_tokens
from rollgym.records.tokens import TokenLog, TokenSample

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
    found = decode_besides_tokens(msgspec.json.encode(whole), lambda answer: answer)
    assert told(found) == whole


def test_only_the_ids_in_the_part_that_is_named_stay_undecoded() -> None:
    text = b'{"a":{"prompt_token_ids":[1,2]},"b":["prompt_token_ids\\":[",{"x":[3]}]}'
    named = decode_besides_tokens(text, lambda whole: whole["a"])
    assert named["a"] == {"prompt_token_ids": msgspec.Raw(b"[1,2]")}
    assert decode_besides_tokens(text, lambda whole: whole) == msgspec.json.decode(text)
    assert told(named) == msgspec.json.decode(text)


def test_arrays_behind_the_ids_of_the_prompt_stay_undecoded_too() -> None:
    fields = (
        b'"prompt_token_ids":[1],"generation_token_ids":[2],"generation_log_probs":[-0.5],"x":3'
    )
    found = decode_besides_tokens(b"{%b}" % fields, lambda whole: whole, to_read=True)
    arrays = {"prompt_token_ids": b"1", "generation_token_ids": b"2"}
    assert found == arrays | {"generation_log_probs": b"-0.5", "x": 3}
    for other in (b"[-0.5", b'["]"]', b"[[2]]", b"null"):
        text = b"{%b}" % fields.replace(b"[2]", other)
        with suppress(msgspec.DecodeError):
            whole = decode_besides_tokens(text, lambda whole: whole)
            assert told(whole) == msgspec.json.decode(text)


TURNS = st.lists(
    st.tuples(
        st.integers(0, 3),  # how the prompt begins
        IDS,
        IDS,
        st.sampled_from(["fits", "unknown", "too few", "no numbers", "no ids"]),
        st.sampled_from(["compact", "spaced", "decoded"]),
    ),
    max_size=8,
)


@given(turns=TURNS)
def test_tokens_are_the_same_read_from_json_and_decoded(
    turns: list[tuple[int, list[int], list[int], str, str]],
) -> None:
    reader, log = TokenReader("an answer"), TokenLog()
    prompt, whole = list[int](), list[int]()
    for number, (begins, said, sampled, logprobs, form) in enumerate(turns):
        prompt = [[], prompt, whole[:-1], whole][begins] + said
        whole = prompt + sampled
        fields: dict[str, object] = {"prompt_token_ids": prompt, "generation_token_ids": sampled}
        if logprobs != "unknown":
            known = [-0.5] * len(sampled)
            wrong = {"too few": known[1:], "no numbers": [None] * len(sampled)}
            fields["generation_log_probs"] = wrong.get(logprobs, known)
        if logprobs == "no ids":
            fields["generation_token_ids"] = [*sampled, 0.5]
        sample = TokenSample.of(fields)
        assert sample is not None
        log.skip_to(number)
        log.add(sample)
        given_fields = fields
        if form != "decoded":
            encode = msgspec.json.encode if form == "compact" else spaced
            given_fields = {name: encode(value)[1:-1] for name, value in fields.items()}
        assert reader.read(number, given_fields)
    assert reader.log.turns == log.turns


def spaced(value: object) -> bytes:
    return json.dumps(value).encode()


def test_what_is_no_json_is_an_error_and_what_is_no_array_of_ids_is_a_problem() -> None:
    reader = TokenReader("an answer")
    assert not reader.read(0, {})
    first = {"prompt_token_ids": b"1,2", "generation_token_ids": b"3"}
    assert reader.read(0, first)
    for text in (b"1,2,3,-4", b"1,2,3,0.5", b"1,2,3,null", b"1,2,3,18446744073709551616"):
        assert reader.read(len(reader.log), {**first, "prompt_token_ids": text})
        assert reader.log.turns[-1].problem
    for text in (b"1,2,3,,4", b"1,2,3,01", b"1,2,3,4x", b"1,2,3,"):
        with pytest.raises(ModelMalformedError, match="prompt_token_ids in an answer is not JSON"):
            reader.read(9, {**first, "prompt_token_ids": text})
    assert reader.read(4, {**first, "prompt_token_ids": b"1,2,3,4"})
    assert (len(reader.log), reader.log.turns[-1].after) == (6, 0)
