"""A model's text never blocks the event loop: reading an answer takes a bounded time.

Each reader gets a megabyte of each shape. It needs at most 50 ms on an idle machine; the limit here
is twenty times as much processor time, which every quadratic reader exceeds. The short texts come
first, so that an exponential reader fails within seconds.
"""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from resources_servers.code_gen.task import extract_program
from resources_servers.example_multi_step.app import read_answers
from resources_servers.example_single_tool_call.app import CITIES, WeatherServer, WeatherTask
from resources_servers.math.app import find_answer as find_math_answer
from resources_servers.mcqa.extraction import GradingMode, extract_choice
from resources_servers.reasoning_gym.app import find_answer as find_puzzle_answer
from rollgym.servers import ResourcesConfig, Response
from rollgym.servers.final_answer import answer_text, last_boxed, split_thinking, without_thinking
from rollgym.store.settings import hide_secrets_in_text
from webgym.browser.contract.answers import PageInfo
from webgym.context.formats import find_format
from webgym.context.page_view import AgentObservation
from webgym.context.parsers import parse_reply
from webgym.context.settings import ContextSettings
from webgym.models.judge import OPINION, UnreadableReplyError

PAGE = AgentObservation(page=PageInfo("http://a.example/", "A"))
MEGABYTE = 1_000_000
LIMIT = 20 * 0.050
OPTIONS = {letter: f"option {letter}" for letter in "ABCDEFGHIJ"}
# A shape is a beginning, what is repeated, and an end.
SHAPES: tuple[tuple[str, str, str], ...] = (
    ("", "\n", ""),
    ("", " ", "x"),
    ("", "\r\n", ""),
    ("", "a ", "B"),
    ("", "1 ", "°C"),
    ("", "9", "."),
    ("", "\\", ""),
    ("", "{", ""),
    ("", "\ufdfa", "Answer: A"),
    ("```", " ", "`"),
    ("```", " a", "`"),
    ("", "```\n", ""),
    ("", "~", "`"),
    ("", "~~~ `\n", ""),
    ("```python\n", "a\n", "```"),
    ("```python\n", " ", "x\n```"),
    ("<think>", "<think>", ""),
    ("\n", "<think>\n</think>\n", "B"),
    ("", "</think>", ""),
    ("", "<tool_call>{}", ""),
    ('<tool_call>{"a": [', "1,", "1]}</tool_call>"),
    ('<tool_call>{"a": "', "\\'", '"}</tool_call>'),
    ("", '{"a": ', ""),
    ("", "Action:\n", ""),
    ("", '{"a":', ""),
    ("", ' {"action": "wait"}', ""),
    ("click ", '"', ""),
    ("type ", '"a" ', 'into "'),
    ("Action: click(", "a='1',", ")"),
    ("Action: type(content='", "\\'", "')"),
    ("", r"\boxed{", ""),
    ("", r"\boxed{A}", ""),
    ("", r"\boxed", ""),
    (r"\boxed{", "{}", ""),
    (r"\boxed{", r"\text{", "}}}}"),
    (r"\boxed{", "option ", "}"),
    ("", "answer: ", ""),
    ("", "answer: A/B\n", ""),
    ("answer", " ", ""),
    ("answer:", "\n", ""),
    ("Answer: ", "A ", ""),
    ("", "*", ": B"),
    ("Answer: ", "a;", ""),
    ("", "<answer>", ""),
    ("```json\n", "\n ```", "x"),
)


def read_weather(text: str) -> None:
    message = {"type": "message", "role": "assistant", "content": text}
    server = WeatherServer("weather", ResourcesConfig())
    task = WeatherTask(expected_city=CITIES[0])
    asyncio.run(server.verify(task, Response({"output": [message]}), None))


def read_opinion(text: str) -> None:
    with pytest.raises(UnreadableReplyError):
        OPINION.read(text)


def read_choices(text: str) -> None:
    extract_choice(answer_text(text), OPTIONS, GradingMode.LENIENT_ANSWER_COLON_MD, "answer is")


READERS: tuple[Callable[[str], object], ...] = (
    split_thinking,
    without_thinking,
    last_boxed,
    extract_program,
    find_math_answer,
    find_puzzle_answer,
    read_answers,
    read_weather,
    read_choices,
    *(
        lambda text, mode=mode: extract_choice(answer_text(text), OPTIONS, mode)
        for mode in GradingMode
    ),
    lambda text: parse_reply(text, ContextSettings()),
    *(
        lambda text, name=name: find_format(name).read_reply(text, ContextSettings(), (), PAGE)
        for name in ("compact", "qwen3-vl", "ui-tars", "openai-computer-use")
    ),
    read_opinion,
)


def hostile_texts(size: int) -> Iterator[str]:
    half = size // 2
    yield "```" + " " * half + "a" * half + "`"
    yield "\\boxed{" + "{" * half + "}" * half + "}"
    for beginning, repeated, end in SHAPES:
        yield beginning + repeated * (size // len(repeated)) + end


@pytest.mark.parametrize("reader", READERS)
def test_reading_an_answer_takes_a_bounded_time(reader: Callable[[str], object]) -> None:
    for size in (500, 2_000, MEGABYTE):
        for text in hostile_texts(size):
            began = time.thread_time()
            reader(text)
            assert time.thread_time() - began < LIMIT, text[:40]


def test_credentials_are_hidden_in_linear_time() -> None:
    for text in hostile_texts(20_000):
        for logged in (text, f"://{text}", "://" + "a:" * 10_000, "Bearer " * 3_000):
            began = time.thread_time()
            hide_secrets_in_text(logged)
            assert time.thread_time() - began < LIMIT, logged[:40]
