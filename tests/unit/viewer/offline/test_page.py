import re
import tracemalloc
from collections.abc import Callable, Sequence

import msgspec
import pytest

from rollgym.viewer.documents.row_document import RowDocument
from rollgym.viewer.formats.rows import ROLLOUTS
from rollgym.viewer.offline import markup, page
from rollgym.viewer.offline.page import offline_page
from rollgym.viewer.summary import EntryStatus, RecordSummary
from rollgym.viewer.view import (
    MarkView,
    PictureData,
    PictureView,
    RolloutDocument,
    RolloutView,
    StepView,
    Text,
    TurnView,
)
from tests.integration.viewer.rollouts import HOSTILE, Page
from tests.unit.viewer.documents.records import DONE, PIXEL, Surroundings, opened

PICTURE = PictureData("image/png", b"\x89PNG\r\n\x1a\n")


def nothing(_: PictureView) -> PictureData | None:
    return None


def shown(
    document: RolloutDocument,
    picture: Callable[[PictureView], PictureData | None] = nothing,
    name: str = "x",
) -> Page:
    return Page(b"".join(offline_page(document, name=name, picture=picture)).decode())


class Stepping(RowDocument):
    """A rollout with steps."""

    def __init__(self, steps: Sequence[StepView]) -> None:
        super().__init__(b"{}", Surroundings(), DONE)
        self._steps = steps

    def view(self) -> RolloutView:
        return msgspec.structs.replace(super().view(), steps=len(self._steps), turns=2)

    def steps(self, start: int, count: int) -> list[StepView]:
        return list(self._steps[start : start + count])


def test_a_page_tells_the_whole_rollout() -> None:
    call = {"id": "c", "function": {"name": "look", "arguments": '{"at":1}'}}
    row = {
        "responses_create_params": {"input": "What is it?", "temperature": 0.5},
        "output": [
            {"role": "assistant", "reasoning": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "a lamp"},
            {"role": "assistant", "content": "It is **a lamp**."},
        ],
        "reward": 1.0,
        "judge_said": "yes",
        "metadata": {"timings": {"model": 1.5}},
    }
    summary = RecordSummary(
        status=EntryStatus.COMPLETED, task=3, repeat=1, reward=1.0, success=True
    )
    document = RowDocument(msgspec.json.encode(row), Surroundings(), summary)
    text = re.sub(r"\s+", " ", shown(document, name="run, task 3").text)
    for words in (
        "Task 3, repeat 1 run, task 3 status completed reward 1 verdict success",
        "Time model 1.5 s",
        "Prompt user 0 What is it?",
        'assistant 0 Reasoning I look. calls look {"at": 1}',
        "tool: look 1 a lamp",
        "assistant 2 It is **a lamp**.",
        "judge_said yes",
        "temperature 0.5",
    ):
        assert words in text, words
    assert text.index("judge_said yes") < text.index("Transcript") < text.index("temperature 0.5")


def test_a_page_runs_nothing_and_loads_nothing() -> None:
    body = b"".join(offline_page(opened({}), name="x", picture=nothing)).decode()
    read = Page(body)
    assert ("meta", {"http-equiv": "Content-Security-Policy", "content": page.POLICY}) in (
        read.elements
    )
    assert not {name for name, _ in read.elements} & {"script", "link", "iframe", "a", "form"}
    assert not re.search(r"url\(|@import", body)


def test_hostile_text_stays_text() -> None:
    message = {
        "role": HOSTILE,
        "content": [HOSTILE, {"text": HOSTILE}, {"image_url": HOSTILE}, {HOSTILE: HOSTILE}],
        "reasoning": HOSTILE,
        "tool_calls": [{"id": HOSTILE, "function": {"name": HOSTILE, "arguments": HOSTILE}}],
    }
    row = {
        "output": [message],
        "failure": {"kind": HOSTILE, "detail": HOSTILE, "causes": [{"type": HOSTILE}]},
        "metadata": {"timings": {HOSTILE: 1.0}},
        HOSTILE: {HOSTILE: HOSTILE},
    }
    read = shown(opened(row), name=HOSTILE)
    assert read.text.count("<script>alert(1)</script>") > 10
    assert not read.count("script") + read.count("img") + read.count("b")
    assert not [name for _, given in read.elements for name in given if name.startswith("on")]


def test_pictures_are_in_the_file_and_marks_are_drawn_on_them() -> None:
    step = StepView(
        0,
        "/0",
        title="Shop",
        url="https://shop.example/",
        screenshot=PictureView(file="a.png", width=800, height=600),
        action="click [5]",
        marks=(
            MarkView("point", 0.5, 0.25, label="click"),
            MarkView("box", 0.1, 0.2, 0.3, 0.4),
            MarkView("arrow", 0.5, 0.5, 0.0, 0.25),
            MarkView("point", 0.9, 0.5, label="a long text"),
        ),
        response=Text("I click.", 8),
        prompt=(TurnView(0, "user", "/p", (Text("Go on.", 6),)),),
        judged=True,
        judgment="It shows the basket.",
        reward=0.5,
        timings={"model": 1.25},
    )
    read = shown(Stepping([step]), lambda _: PICTURE)
    [picture] = [given for name, given in read.elements if name == "img"]
    assert picture["src"] == "data:image/png;base64,iVBORw0KGgo="
    assert (picture["width"], picture["height"]) == ("800", "600")
    drawn = [(name, given) for name, given in read.elements if given.get("class") == "mark"]
    assert [name for name, _ in drawn] == ["circle", "rect", "line", "circle"]
    assert (drawn[0][1]["cx"], drawn[0][1]["cy"]) == ("50%", "25%")
    assert (drawn[2][1]["y1"], drawn[2][1]["y2"]) == ("50%", "75%")
    labels = [given for name, given in read.elements if name == "text"]
    assert [(given["class"], given["dx"]) for given in labels] == [
        ("label", "14"),
        ("label before", "-14"),
    ]
    text = re.sub(r"\s+", " ", read.text)
    for words in (
        "Step 1: click [5] Shop https://shop.example/",
        "The judge saw this screenshot. It shows the basket.",
        "Response I click.",
        "Prompt user 0 Go on.",
        "reward 0.5 model 1.25 s",
    ):
        assert words in text, words
    assert "Transcript" not in text


def test_the_title_stands_once_on_the_page() -> None:
    asked = {"input": "What is it? " * 50}
    row = msgspec.json.encode({"responses_create_params": asked, "output": "It is a lamp."})
    summary = ROLLOUTS.summary(row, lambda _: None)
    text = shown(RowDocument(row, Surroundings(), summary), name="run-0-1").text
    assert text.count(summary.facts.title) == 2, "in the head and on the page"


def test_a_picture_that_is_not_there_is_reported() -> None:
    images = [{"image_url": PIXEL}, {"image_url": "https://elsewhere.example/x.png"}]
    read = shown(opened({"output": [{"role": "user", "content": images}]}))
    assert not read.count("img")
    assert "Picture that cannot be read." in read.text
    assert "not loaded: https://elsewhere.example/x.png" in read.text


def test_what_is_left_out_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_TURNS", 3)
    monkeypatch.setattr(markup, "PICTURES_LIMIT", 1)
    content = ["x" * 30_000, {"image_url": PIXEL}, {"image_url": PIXEL}]
    read = shown(opened({"output": [{"role": "user", "content": content}] * 5}), lambda _: PICTURE)
    assert "2 more are in the original file." in read.text
    assert "First 20,000 of 30,000 characters" in read.text
    assert (read.count("img"), read.count("article")) == (1, 3)
    assert "the limit of this file is" in read.text


def test_a_long_rollout_is_written_piece_by_piece() -> None:
    message = {"role": "user", "content": "some words " * 1_500}
    document = opened({"output": [message] * 1_000})
    tracemalloc.start()
    try:
        written = sum(map(len, offline_page(document, name="x", picture=nothing)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert written > 16_000_000
    assert peak < written / 2


def test_times_beyond_all_bounds_are_drawn_within_the_page() -> None:
    span = {"phase": "model", "start": 1e308, "seconds": 1e308}
    read = shown(opened({"metadata": {"spans": [span]}}))
    bars = [attributes for name, attributes in read.elements if name == "rect"]
    assert [bar["width"] for bar in bars] == ["100%"]
