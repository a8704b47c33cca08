from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgym.models.judge import (
    BLOCKAGE,
    LARGEST_REPLY,
    OPINION,
    RELEVANCE,
    Opinion,
    ReplyForm,
    UnreadableReplyError,
    facts_form,
)

PASS = '{"reason": "It is there.", "verdict": "pass"}'
FORMS: list[ReplyForm[Any]] = [OPINION, RELEVANCE, BLOCKAGE, facts_form(2)]
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def test_an_object_of_the_form_is_read() -> None:
    for text in [
        PASS,
        f"\n  {PASS}\n",
        f"```json\n{PASS}\n```",
        f"```\n{PASS}\n```",
        f"<think>Is it {{}}? It says fail.</think>\n\n{PASS}",
        f'I wonder: {{"reason": "", "verdict": "fail"}}</think>```json\n{PASS}\n```',
    ]:
        assert OPINION.read(text) == Opinion("It is there.", "pass")


def test_anything_else_is_not_read() -> None:
    for text in [
        "",
        "pass",
        "SUCCESS",
        "null",
        "[]",
        "{}",
        '"pass"',
        '{"verdict": "pass"}',
        '{"reason": "It is there.", "verdict": "passed"}',
        '{"reason": "It is there.", "verdict": "PASS"}',
        '{"reason": "It is there.", "verdict": true}',
        '{"reason": null, "verdict": "pass"}',
        '{"reason": "It is there.", "verdict": "pass", "sure": true}',
        f"{PASS} {PASS}",
        f"The verdict: {PASS}",
        f"{PASS} I am sure.",
        f"<think>{PASS}",
        f"```json\n{PASS}",
        "\ud800",
        "[" * 50_000,
        " " * LARGEST_REPLY + PASS,
    ]:
        with pytest.raises(UnreadableReplyError):
            OPINION.read(text)


def test_no_beginning_of_a_reply_is_a_reply() -> None:
    for length in range(len(PASS)):
        with pytest.raises(UnreadableReplyError):
            OPINION.read(PASS[:length])


@given(st.text() | st.text('{}[]":,`\\ \n<>/thinkpasfrevodct', max_size=60))
def test_whatever_a_judge_writes_is_read_or_refused_and_breaks_nothing(text: str) -> None:
    for form in FORMS:
        with suppress(UnreadableReplyError):
            assert isinstance(form.read(text), form.kind)


def test_an_unreadable_reply_is_quoted_in_short() -> None:
    with pytest.raises(UnreadableReplyError, match="it begins 'Well, Well") as caught:
        OPINION.read("Well, " * 5_000)
    assert len(str(caught.value)) < 400


def test_a_relevance_is_a_number_from_0_to_3() -> None:
    for relevance in ["-1", "4", "1.5", '"2"', "null", "true"]:
        with pytest.raises(UnreadableReplyError):
            RELEVANCE.read(f'{{"reason": "", "relevance": {relevance}}}')


def test_opinions_on_other_facts_than_those_asked_about_are_not_read() -> None:
    for numbers in [[], [1], [2, 1], [1, 1], [0, 1], [1, 2, 3]]:
        facts = [{"fact": number, "reason": "", "verdict": "pass"} for number in numbers]
        with pytest.raises(UnreadableReplyError, match="facts 1 to 2"):
            facts_form(2).read(msgspec.json.encode({"facts": facts}).decode())


def test_opinions_on_each_fact_are_read_in_order() -> None:
    facts = [
        {"fact": 1, "reason": "seen", "verdict": "pass"},
        {"fact": 2, "reason": "missing", "verdict": "fail"},
    ]
    found = facts_form(2).read(msgspec.json.encode({"facts": facts}).decode())
    assert [opinion.verdict for opinion in found.facts] == ["pass", "fail"]


@every_form
def test_the_schema_matches_the_reader(form: ReplyForm[Any]) -> None:
    """What endpoints are told is written by hand, because they take a part of JSON schema only."""
    (reference,), components = msgspec.json.schema_components([form.kind])
    _same_shape(reference, form.schema, components)


@every_form
def test_a_schema_is_strict_and_puts_the_reason_first(form: ReplyForm[Any]) -> None:
    told: Any = form.response_format["json_schema"]
    assert told["strict"] is True
    for schema in _objects(told["schema"]):
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        assert list(schema["properties"])[-2:-1] in (["reason"], [])


def _same_shape(read: Any, told: Any, components: dict[str, Any]) -> None:
    if "$ref" in read:
        read = components[read["$ref"].rpartition("/")[2]]
    if "properties" in read:
        assert list(told["properties"]) == list(read["properties"])
        assert told["required"] == read["required"]
        for name, part in read["properties"].items():
            _same_shape(part, told["properties"][name], components)
    elif "items" in read:
        _same_shape(read["items"], told["items"], components)
    elif "minimum" in read:
        assert told["enum"] == list(range(read["minimum"], read["maximum"] + 1))
    elif "enum" in read:
        assert sorted(told["enum"]) == sorted(read["enum"])
    else:
        assert told["type"] == read["type"]


def _objects(schema: Any) -> list[Any]:
    inner = [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]
    return [schema] * ("properties" in schema) + [each for part in inner for each in _objects(part)]
