"""The view of a rollout, which the page in the browser and the offline page draw.

The structs here are the JSON of the viewer's interface. All texts are bounded: `Text.size` is the
length of the whole text, and `path` is the JSON pointer to it in the record. All values are data;
none is markup.
"""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Literal

import msgspec

from rollgym.viewer.summary import RecordSummary

TEXT_LIMIT = 20_000
"""Characters of one text that are sent with a page; the rest is sent on request."""
FIELD_TEXT_LIMIT = 4_000
TURNS_LIMIT = 100
STEPS_LIMIT = 50
"""Turns or steps that one request may ask for."""


class Text(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text, cut at the limit. `size` counts the characters of the whole text."""

    text: str
    size: int
    path: str = ""


class PictureView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture in the record itself (`path`) or in a file of the source (`file`).

    A picture elsewhere has neither: it is not loaded, and `note` is its address.
    """

    path: str = ""
    file: str = ""
    width: int | None = None
    height: int | None = None
    note: str = ""


class CallView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call. `arguments` is formatted JSON; `malformed` says that it is not JSON."""

    name: str
    arguments: Text
    id: str = ""
    malformed: bool = False


class TurnView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a conversation. `path` is the JSON pointer of its item, for its raw JSON.

    `tool` is the name of the tool that returned a result. A result `is_error` if it has the form in
    which servers answer errors. `version` names the policy versions that sampled it, if known.
    """

    index: int
    role: str
    path: str
    parts: tuple[Text | PictureView, ...] = ()
    reasoning: Text | None = None
    calls: tuple[CallView, ...] = ()
    tool: str = ""
    tool_call_id: str = ""
    is_error: bool = False
    version: str = ""


class MarkView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mark on a screenshot, in fractions of its width and height.

    A `point` is at x, y. A `box` has its corner there. An `arrow` starts there and ends at
    x + `width`, y + `height`. `label` is written beside it.
    """

    shape: Literal["point", "box", "arrow"]
    x: float
    y: float
    width: float = 0.0
    height: float = 0.0
    label: str = ""


class StepView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a rollout that has screenshots. `index` counts from 0.

    `marks` are made from the viewport that was stored with the step; without one there are no
    marks, and `unplaced` says why. `judged` says that the judge saw this screenshot, `judgment`
    why. `prompt` is the prompt of the model, `version` its policy version, if known.
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
    version: str = ""


class SpanView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A bar of the timeline, in seconds from the rollout's start.

    `step` is the index of its step, or of its turn in a rollout without steps.
    """

    phase: str
    start: float
    seconds: float
    label: str = ""
    step: int | None = None


class TimelineView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where the time went. Without `exact` only the total of each phase is known, not its spans.

    It is `complete` if the spans add up to the totals of their phases.
    """

    seconds: float
    complete: bool
    spans: tuple[SpanView, ...] = ()
    totals: dict[str, float] = {}
    exact: bool = False


class FailureView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A typed failure. `meaning` explains its kind; `causes` start with the nearest one.

    `place` is the file and line of the plug-in that raised an exception which was not meant.
    """

    kind: str
    detail: Text
    meaning: str = ""
    retryable: bool | None = None
    causes: tuple[tuple[str, str], ...] = ()
    traceback: Text | None = None
    place: str = ""


class SignView(msgspec.Struct, frozen=True):
    """Something that deserves a look, and how often it is in the rollout."""

    sign: str
    meaning: str
    number: int


class FieldView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A named value: a text as it is, everything else as JSON.

    The page offers `file`, a recording in a file of the source, as a download.
    """

    name: str
    value: Text
    is_json: bool = False
    file: str = ""


class SectionView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Fields under a heading. `folded` ones are closed at first.

    A `verdict` section has the fields of the verifier or the judge.
    """

    title: str
    fields: tuple[FieldView, ...]
    folded: bool = False
    verdict: bool = False


class UnreadableView(msgspec.Struct, frozen=True):
    """A line that is not a record: its number, its first byte's offset, and its beginning.

    In a file that is not `by_lines`, `line` is the number of the record.
    """

    line: int
    offset: int
    bytes: int
    problem: str
    text: str


class TokenKind(StrEnum):
    """What a token is in a branch.

    `prompt`: the model read it. `sampled`: it was sampled here and is in the loss. `repeated`: it
    was sampled in another branch. `unused`: it was sampled, but its turn has a problem.
    """

    PROMPT = "prompt"
    SAMPLED = "sampled"
    REPEATED = "repeated"
    UNUSED = "unused"


class TokenRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """Neighbouring tokens of one turn and one policy version, from `start` in their branch.

    Ids that a browser would round are texts. `logprobs` and `texts` are empty where unknown.
    """

    start: int
    turn: int
    kind: TokenKind
    ids: list[int | str]
    logprobs: list[float] = []
    texts: list[str] = []
    version: str = ""


class TokenBranchView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A branch of a rollout's tokens without its ids; `left_at` is where it left another one."""

    index: int
    tokens: int
    sampled: int
    first_turn: int
    turns: int
    reason: str = ""
    left_at: int = 0
    versions: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    has_logprobs: bool = False


class TokensView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The branches of a rollout, in the order in which they begin."""

    branches: tuple[TokenBranchView, ...] = ()
    left_out: int = 0


class RolloutView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything about a rollout except its turns and steps, which are requested in portions.

    `prompt` has the system and user turns. `sections` are the fields of the verifier and the judge,
    the task, the sampling parameters, tools and the rest, in the order in which they are shown. A
    line that is not a record only has `unreadable`, and a section with the same values.
    """

    summary: RecordSummary
    title: str
    bytes: int
    turns: int = 0
    steps: int = 0
    prompt: tuple[TurnView, ...] = ()
    failure: FailureView | None = None
    signs: tuple[SignView, ...] = ()
    timeline: TimelineView | None = None
    usage: dict[str, int] = {}
    sections: tuple[SectionView, ...] = ()
    unreadable: UnreadableView | None = None
    has_tokens: bool = False


class PictureData(msgspec.Struct, frozen=True):
    """The bytes of a picture, of one of the types that the viewer shows."""

    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: bytes


class RolloutDocument(ABC):
    """An opened record. It holds the bytes of the record, and little else.

    A document has no turns, steps and pictures unless its class provides them.
    """

    def __init__(self, summary: RecordSummary, size: int) -> None:
        """`size` is the length of the record in its file."""
        self.size = size
        self._summary = summary

    @abstractmethod
    def view(self) -> RolloutView: ...

    def turns(self, start: int, count: int) -> list[TurnView]:
        """At most `count` turns from `start` on."""
        return []

    def steps(self, start: int, count: int) -> list[StepView]:
        """At most `count` steps from `start` on."""
        return []

    @abstractmethod
    def raw(self, path: str) -> bytes:
        """The JSON at a pointer; "" is the whole record, as `row` returns it. Raises KeyError."""

    def tokens(self) -> TokensView:
        """The branches of the exact tokens. Raises TokenError."""
        return TokensView()

    def token_runs(self, branch: int, start: int, count: int) -> list[TokenRun]:
        """At most `count` tokens of a branch. Raises KeyError, TokenError."""
        raise KeyError(branch)

    def image(self, path: str) -> PictureData:
        """The picture at a pointer in the record. Raises KeyError, ValueError."""
        raise KeyError(path)

    def find(self, text: str) -> tuple[list[int], list[int]]:
        """The indexes of the turns and of the steps in which a text occurs, ignoring case."""
        return [], []

    @abstractmethod
    def row(self) -> bytes:
        """The row of a file of rollouts. Raises ValueError."""
