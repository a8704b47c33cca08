"""What a solver is, what it sees of a request, and how it makes random choices.

A solver sees the task, the tools, and the earlier calls with their outputs. All of it comes from
the request: the model keeps no state between requests.

Each random choice has a name, and its result follows from the name and the seed, never from the
order of choices. So a rollout can be repeated, its turns can come from different processes, and no
choice changes another.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import msgspec

from rollgym.records import ModelRequestError, derive_seed
from rollgym.records.decoding import JsonDecoder, decode_json

T = TypeVar("T")


class Exchange(NamedTuple):
    """A call with its output."""

    name: str
    arguments: str
    output: str

    @property
    def failed(self) -> bool:
        """Whether the output is an error, in the form that agents and servers give it."""
        return self.output.startswith('{"error"')

    @property
    def refused(self) -> bool:
        """Whether it failed although its arguments are JSON, so another call would fail too."""
        return self.failed and self._readable

    @property
    def _readable(self) -> bool:
        try:
            decode_json(self.arguments)
        except msgspec.DecodeError:
            return False
        return True


class _Part(msgspec.Struct):
    text: str = ""


_Text = str | list[_Part] | None


class _Item(msgspec.Struct):
    type: str = "message"
    role: str = ""
    content: _Text = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: _Text = None


class _Tool(msgspec.Struct):
    name: str = ""


class _Params(msgspec.Struct):
    input: str | list[_Item]
    instructions: _Text = None
    tools: list[_Tool] | None = None
    tool_choice: msgspec.Raw = msgspec.Raw(b"null")
    parallel_tool_calls: bool | None = None
    seed: int | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"null")


class ScriptedRequest(NamedTuple):
    """`task` is all text for the model, `question` the last message of the user.

    A caller can change `variation` to get another answer to the same question. `words` is the
    length of the whole conversation.
    """

    task: str
    question: str
    tools: frozenset[str]
    parallel: bool
    exchanges: list[Exchange]
    variation: str
    words: int

    @property
    def answered(self) -> list[Exchange]:
        """The exchanges that did not fail."""
        return [exchange for exchange in self.exchanges if not exchange.failed]

    @property
    def refused(self) -> bool:
        """Whether a tool rejected a call."""
        return any(exchange.refused for exchange in self.exchanges)


_DECODER = JsonDecoder(_Params)


def read_request(body: bytes) -> ScriptedRequest:
    """Read the body of a request. Raises ModelRequestError if it does not fit the Responses API."""
    try:
        params = _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise ModelRequestError(f"this is not a request of the Responses API: {error}") from error
    given = params.input
    items = [_Item(role="user", content=given)] if isinstance(given, str) else given
    said = [item for item in items if item.type == "message" and item.role != "assistant"]
    asked = [_text(item.content) for item in said if item.role == "user"]
    no_tools = bytes(params.tool_choice) == b'"none"'
    return ScriptedRequest(
        task="\n".join([_text(params.instructions), *(_text(item.content) for item in said)]),
        question=asked[-1] if asked else "",
        tools=frozenset(() if no_tools else (tool.name for tool in params.tools or ())),
        parallel=params.parallel_tool_calls is not False,
        exchanges=list(_exchanges(items)),
        variation=f"{params.seed} {bytes(params.metadata).decode()}",
        words=len(_text(params.instructions).split()) + sum(map(_words, items)),
    )


def _exchanges(items: list[_Item]) -> Iterator[Exchange]:
    outputs = {item.call_id: _text(item.output) for item in items if item.output is not None}
    for item in items:
        if item.type == "function_call" and item.call_id in outputs:
            yield Exchange(item.name, item.arguments, outputs[item.call_id])


def _text(content: _Text) -> str:
    return "".join(part.text for part in content) if isinstance(content, list) else content or ""


def _words(item: _Item) -> int:
    texts = (_text(item.content), item.name, item.arguments, _text(item.output))
    return sum(len(text.split()) for text in texts)


class SeededChoices:
    """The random choices of one rollout."""

    def __init__(self, seed: int, *about: str) -> None:
        self._seed = derive_seed(seed, *about)

    def happens(self, probability: float, *decision: int | str) -> bool:
        return self.random(*decision).random() < probability

    def choose(self, among: Sequence[T], *decision: int | str) -> T:
        return self.random(*decision).choice(among)

    def random(self, *decision: int | str) -> Random:
        """A random number generator for one decision."""
        return Random(derive_seed(self._seed, *decision))  # noqa: S311 - reproducible on purpose

    def identifier(self, *about: int | str) -> str:
        """An identifier that is unique in this rollout."""
        return f"{derive_seed(self._seed, 'identifier', *about):016x}"


class PlannedCall(NamedTuple):
    """A tool call to make."""

    name: str
    arguments: Mapping[str, object]


class ScriptedTurn(NamedTuple):
    """One turn of the model: a text or calls. `thought` is reasoning that it may show."""

    thought: str
    text: str = ""
    calls: tuple[PlannedCall, ...] = ()


class Solver(Protocol):
    """Solves one kind of task. `mistakes` names its mistakes, at least one; each costs reward."""

    mistakes: ClassVar[tuple[str, ...]]

    def recognizes(self, request: ScriptedRequest) -> bool:
        """Whether this solver can solve the task."""

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> ScriptedTurn:
        """The next turn of a rollout, in which the solver makes this mistake, or none."""
