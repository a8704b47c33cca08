"""A rollout as it is shown: what the page in the browser draws, and the page that is taken away.

The structs here are the JSON of the viewer's interface. All texts are bounded: `Text.size` says how
long one really is, and `path` where in the record the whole of it is (a JSON pointer). Everything
in them is data; nothing in them is markup.
"""

from typing import Literal, Protocol

import msgspec

from rollgym.viewer.summary import RecordSummary

TEXT_LIMIT = 20_000
"""Characters of one text that are sent with a page; the rest is asked for."""
FIELD_TEXT_LIMIT = 4_000
TURNS_LIMIT = 100
STEPS_LIMIT = 50
"""How many turns or steps one request may ask for."""

Level = Literal["good", "bad", "neutral"]


class Text(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text, cut at the limit. `size` counts the characters of the whole one."""

    text: str
    size: int
    path: str = ""


class PictureView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture: of the record itself (`path`), or a file of the source (`file`).

    One that is elsewhere has neither: it is not loaded, and `note` says where it would be.
    """

    path: str = ""
    file: str = ""
    width: int | None = None
    height: int | None = None
    note: str = ""


class CallView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call. `arguments` is JSON for people; `malformed` where it was none."""

    name: str
    arguments: Text
    id: str = ""
    malformed: bool = False


class TurnView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one side said or did. `path` is the JSON pointer of its item, for its raw JSON.

    `tool` names the tool that a result is of. `logprobs` are there where the server gave them.
    """

    index: int
    role: str
    path: str
    parts: tuple[Text | PictureView, ...] = ()
    reasoning: Text | None = None
    calls: tuple[CallView, ...] = ()
    tool: str = ""
    tool_call_id: str = ""


class MarkView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something drawn on a screenshot, in fractions of its width and height.

    A `point` is at x, y; a `box` has its corner there and `width`, `height`; an `arrow` begins
    there and goes `width`, `height` far. `label` is written beside it.
    """

    shape: Literal["point", "box", "arrow"]
    x: float
    y: float
    width: float = 0.0
    height: float = 0.0
    label: str = ""


class StepView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a rollout that has screenshots. `index` counts from 0.

    `marks` are in fractions, made from the viewport that was stored with the step; where none was
    there are no marks, and `unplaced` says so. `judged` tells that the judge saw this screenshot,
    `judgment` why. `prompt` is what the model was asked.
    """

    index: int
    path: str
    title: str = ""
    url: str = ""
    screenshot: PictureView | None = None
    action: str = ""
    action_key: str = ""
    arguments: Text | None = None
    marks: tuple[MarkView, ...] = ()
    unplaced: str = ""
    problem: str = ""
    notes: tuple[str, ...] = ()
    fields: dict[str, Text] = {}
    response: Text | None = None
    prompt: tuple[TurnView, ...] = ()
    tree: Text | None = None
    parse_failure: str = ""
    reward: float | None = None
    judged: bool = False
    judgment: str = ""
    same_as_next: bool | None = None
    timings: dict[str, float] = {}
    input_tokens: int | None = None
    output_tokens: int | None = None


class SpanView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A bar of the timeline: seconds from the rollout's start.

    `step` is the one it is of; the turn, in a rollout that has no steps.
    """

    phase: str
    start: float
    seconds: float
    label: str = ""
    step: int | None = None


class TimelineView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where the time went. Without `exact` only the sum of each phase is known, not when it was.

    It is `complete` where the spans add up to the sums of their phases.
    """

    seconds: float
    complete: bool
    spans: tuple[SpanView, ...] = ()
    totals: dict[str, float] = {}
    exact: bool = False


class FailureView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A typed failure. `meaning` is what its kind stands for; `causes` go from the nearest on."""

    kind: str
    detail: Text
    meaning: str = ""
    retryable: bool | None = None
    causes: tuple[tuple[str, str], ...] = ()
    traceback: Text | None = None


class FieldView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A named value: a text as it is, everything else as its JSON. `path` is its JSON pointer."""

    name: str
    value: Text
    is_json: bool = False


class SectionView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Fields under a heading, folded at first where they are seldom wanted.

    A `verdict` is what the verifier or the judge said.
    """

    title: str
    fields: tuple[FieldView, ...]
    folded: bool = False
    verdict: bool = False


class UnreadableView(msgspec.Struct, frozen=True):
    """A line that is no record: its number, the byte it begins at, and how it begins.

    Of a file that is not by lines, `line` counts its records.
    """

    line: int
    offset: int
    bytes: int
    problem: str
    text: str


class RolloutView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything of a rollout but its turns and steps, which are asked for in portions.

    `prompt` is what was asked (system, user). `sections` are the verifier's and judge's fields,
    the task, sampling parameters, tools and the rest, in the order in which they are shown. Of what
    is no record there is nothing but `unreadable`, also as a section.
    """

    summary: RecordSummary
    title: str
    bytes: int
    turns: int = 0
    steps: int = 0
    prompt: tuple[TurnView, ...] = ()
    failure: FailureView | None = None
    timeline: TimelineView | None = None
    usage: dict[str, int] = {}
    sections: tuple[SectionView, ...] = ()
    unreadable: UnreadableView | None = None


class RolloutDocument(Protocol):
    """A record that can be looked at. Holds the bytes of the record, and little else.

    `turns` and `steps` give those from `start` on, at most `count`. `raw` gives the JSON at a
    pointer ("" is the whole record, as `row` of its format has it); raises KeyError where there is
    nothing. `image` gives the bytes of a picture that is in the record. `find` gives the indexes of
    the turns and of the steps in which a text occurs, in whatever case.
    """

    @property
    def size(self) -> int: ...

    def view(self) -> RolloutView: ...

    def turns(self, start: int, count: int) -> list[TurnView]: ...

    def steps(self, start: int, count: int) -> list[StepView]: ...

    def raw(self, path: str) -> bytes: ...

    def image(self, path: str) -> "PictureData": ...

    def find(self, text: str) -> tuple[list[int], list[int]]: ...

    def row(self) -> bytes: ...


class PictureData(msgspec.Struct, frozen=True):
    """The bytes of a picture of one of the types that are shown."""

    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: bytes
