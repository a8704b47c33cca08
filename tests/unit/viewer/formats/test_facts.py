"""Facts of tasks, and causes of failures."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import Row
from rollgym.viewer.formats.facts import CAUSE_LIMIT, cause_of, task_facts
from rollgym.viewer.summary import NO_FACTS, TITLE_LIMIT, TaskFacts


def facts(**fields: Any) -> TaskFacts:
    return task_facts(Row.of(fields).fields)


def asked(*messages: Any, **params: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": list(messages), **params}}


SYSTEM = {"role": "system", "content": "You are terse."}
USER = {"role": "user", "content": "How  many\nlegs?"}


def test_the_title_is_the_last_thing_that_the_user_said() -> None:
    first = {"role": "user", "content": "Hello"}
    answer = {"role": "assistant", "content": "Yes?"}
    assert facts(**asked(SYSTEM, first, answer, USER)).title == "How many legs?"
    assert facts(**asked(SYSTEM)).title == "You are terse."
    assert facts(responses_create_params={"input": "Just this"}).title == "Just this"


def test_the_title_is_short_and_can_be_shown() -> None:
    title = facts(question="x\x1b[31m" + "y" * 1000).title
    assert title.startswith("x\ufffd[31myyy")
    assert len(title) == TITLE_LIMIT


def test_a_question_by_itself_is_a_task() -> None:
    for name in ["question", "task_name", "prompt", "problem"]:
        found = facts(**{name: "Why?"})
        assert found.title == "Why?"
        assert len(found.key) == 16


def test_the_key_is_the_task_id_where_there_is_one() -> None:
    assert facts(task_id="a", question="x").key == facts(task_id="a", question="y").key
    assert facts(task_id="a", question="x").key != facts(task_id="b", question="x").key
    assert facts(task_id=7).key == facts(task_id="7").key


def test_the_same_prompt_has_the_same_key_however_it_is_written() -> None:
    parts = [{"type": "input_text", "text": USER["content"]}]
    prompts = [
        asked(SYSTEM, USER),
        asked(SYSTEM, USER, tools=[{"name": "x"}], temperature=1),
        asked(SYSTEM, {"type": "message", "content": parts, "role": "user"}),
        asked(USER, instructions="You are terse."),
        {"messages": [SYSTEM, USER]},
        {"messages": [SYSTEM, USER, {"role": "assistant", "content": "Six."}, USER]},
    ]
    assert len({facts(**prompt).key for prompt in prompts}) == 1
    spaced = Row.parse(
        b'{"responses_create_params" : {"input": [ {"content": "You are terse.", "role":"system"},'
        b' {"role": "user", "content": "How  many\\nleg\\u0073?"} ]} }'
    )
    assert task_facts(spaced.fields).key == facts(**prompts[0]).key


def test_other_prompts_have_other_keys() -> None:
    def image(url: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "input_image", "image_url": url}]}

    prompts = [
        asked(USER),
        asked(SYSTEM, USER),
        asked({**USER, "role": "developer"}),
        asked({"role": "user", "content": "How many legs? "}),
        asked(image("data:image/png;base64,AAAA")),
        asked(image("data:image/png;base64,BBBB")),
    ]
    assert len({facts(**prompt).key for prompt in prompts}) == len(prompts)


def test_a_task_of_the_web_says_where_it_belongs() -> None:
    task = {"task_id": "w-1", "task_name": "Book it", "domain": "Travel", "difficulty": 8}
    for found in (facts(**task), facts(task=task, **asked())):
        assert (found.title, found.domain, found.difficulty) == ("Book it", "Travel", 8)
    assert facts(**task).key == facts(task=task).key


def test_the_agent_is_named() -> None:
    assert facts(agent_ref={"type": "x", "name": "solver"}).agent == "solver"


def test_what_cannot_be_used_is_as_if_it_were_not_there() -> None:
    for odd in [None, 3, True, "", [], {}, [[1]], [None], {"name": 3}, 1e300]:
        found = facts(
            agent_ref=odd, domain=odd, task=odd, messages=odd, responses_create_params=odd
        )
        assert found == NO_FACTS
        assert facts(difficulty=odd).difficulty in (None, 3)


def test_an_odd_message_among_others_is_passed_over() -> None:
    found = facts(
        **asked(3, {"role": 7, "content": "?"}, {"role": "user", "content": {"a": 1}}, USER)
    )
    assert found.title == "How many legs?"


def test_a_difficulty_is_a_whole_number() -> None:
    assert facts(difficulty=3.0).difficulty == 3
    assert facts(difficulty=3.5).difficulty is None
    assert facts(difficulty="hard").difficulty is None


def test_failures_of_one_cause_are_one_group() -> None:
    for one, other, cause in [
        (
            "HTTP 503 from http://127.0.0.1:4711/x after 3.2 s",
            "HTTP 503 from http://127.0.0.1:35211/y?z=1 after 10 s",
            "HTTP 503 from … after N s",
        ),
        (
            "[Errno 111] Connect call failed ('127.0.0.1', 35617)",
            "[Errno 111] Connect call failed ('::1', 80)",
            "[Errno 111] Connect call failed ('…', N)",
        ),
        (
            "no session 5b1c7f0e-8a52-4a3b-9a5e-0123456789ab",
            "no session AB1C7F0E-8A52-4A3B-9A5E-0123456789AB",
            "no session …",
        ),
        (
            "KeyError: 'a key' in /srv/app/tools.py, line 12",
            "KeyError: 'key b' in ./tools/other.py, line 7",
            "KeyError: '…' in …, line N",
        ),
        (
            'the tool "get weather" said "no"',
            'the tool "x" said "a much longer no"',
            'the tool "…" said "…"',
        ),
        (
            "call_5c6541b2125e685e is unknown",
            "call_0000ffff2125e68a is unknown",
            "call_… is unknown",
        ),
        ("object at 0x7f1200", "object at 0xDEADBEEF", "object at …"),
        ("status code: 500 (try 1)", "status code: 500 (try 22)", "status code: 500 (try N)"),
        ("localhost:8080 is gone", "worker-3.cluster:9999 is gone", "… is gone"),
        ("missing 1, 2, 3", "missing 4, 5", "missing N, …"),
        ("took -1.5e-3 of 1,000", "took 7 of 2,500.25", "took N of N"),
        ("two\n  lines", "two lines", "two lines"),
    ]:
        assert cause_of(one) == cause_of(other) == cause


def test_failures_of_different_causes_are_not() -> None:
    for one, other in [
        ("HTTP 503 from http://a/x", "HTTP 429 from http://a/x"),
        ("status=500", "status=502"),
        ("[Errno 111] refused", "[Errno 104] reset"),
        ("the tool broke", "the verifier broke"),
    ]:
        assert cause_of(one) != cause_of(other)


def test_an_apostrophe_quotes_nothing() -> None:
    message = "the calculator's server closed the user's connection"
    assert cause_of(message) == message


@given(st.text(max_size=2000))
def test_any_message_becomes_one_short_printable_line(message: str) -> None:
    cause = cause_of(message)
    assert len(cause) <= CAUSE_LIMIT
    assert cause.isprintable()


def test_a_long_message_costs_little() -> None:
    for message in ("/" * 100_000, "'" * 100_000, "1." * 50_000, "a-" * 50_000, "f" * 100_000):
        assert len(cause_of(message)) <= CAUSE_LIMIT
