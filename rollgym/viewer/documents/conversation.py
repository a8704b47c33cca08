"""The conversation of a row: its items, the tool of each call, and the versions of its turns.

The prompt is in `responses_create_params`, or that of an agent behind the gateway in the first of
its `conversations`. The turns are the row's `output`, else the items of its
`response`, else its `messages`. A prompt of at most `PROMPT_TURNS` turns is shown by itself; a
longer one is shown in front of the other turns, and read in portions like them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import msgspec

from rollgym.records.version import PolicyTurn, VersionPart
from rollgym.rollouts import rows
from rollgym.rollouts.rows import CALLS, OUTPUT, OWN_OUTPUT, PARAMS, RESPONSE
from rollgym.viewer.documents.texts import short
from rollgym.viewer.documents.turns import TurnItem
from rollgym.viewer.summary import FIELD_LIMIT, MOST_FIELDS, Scalar
from rollgym.viewer.values import ABSENT, Fields, fields_of, is_present, items_of, text_of
from rollgym.viewer.view import StepView, TurnView

PROMPT_TURNS = 20
MESSAGES = "messages"
V = TypeVar("V", TurnView, StepView)
_TURNS = msgspec.json.Decoder(tuple[PolicyTurn, ...])
ARROW = " \N{RIGHTWARDS ARROW} "
UNKNOWN = "unknown"
MOST_SHOWN = 4


class ModelReply(NamedTuple):
    """One reply of the model: its first turn, and its calls, each with its turn."""

    turn: int
    calls: list[tuple[str, int]]


class RowConversation:
    """The undecoded items of a row. `field` is the field that the turns are read from."""

    def __init__(self, row: Fields) -> None:
        prompt = _prompt_of_agent(row) or _prompt(PARAMS, row.get(PARAMS), PARAMS, row.get(PARAMS))
        self.field, turns = _turns(row)
        is_long = len(prompt) > PROMPT_TURNS
        self.prompt = [] if is_long else prompt
        self.turns = [*prompt, *turns] if is_long else turns
        self.first = len(self.turns) - len(turns)
        """The first turn after the prompt."""

    def replies(self) -> list[ModelReply]:
        """The model's replies; consecutive turns of the model are one reply.

        Empty for `messages` of another program, which may start with turns that were given.
        """
        if self.field == MESSAGES:
            return []
        replies: list[ModelReply] = []
        others = True
        for turn, item in enumerate(self.turns[self.first :], self.first):
            if not _is_of_model(item.raw):
                others = True
                continue
            if others:
                replies.append(ModelReply(turn, []))
                others = False
            replies[-1].calls.extend(
                (text_of(call.get("name")) or "", turn) for call in _calls(item.raw)
            )
        return replies

    def tool_of(self, call: str) -> str:
        """The name of the tool that the call with this id called; "" for an unknown id."""
        return self._tools.get(call, "")

    @cached_property
    def _tools(self) -> dict[str, str]:
        """Made in one pass over all items, which decodes only ids and names of calls."""
        names: dict[str, str] = {}
        for item in (*self.prompt, *self.turns):
            for call in _calls(item.raw):
                name = short(text_of(call.get("name")))
                for identity in (call.get("id"), call.get("call_id")):
                    if is_present(identity):
                        names[short(text_of(identity))] = name
        return names


def _is_of_model(raw: msgspec.Raw) -> bool:
    item = fields_of(raw) or {}
    is_result = text_of(item.get("type")) == "function_call_output"
    return not is_result and text_of(item.get("role")) in (None, "assistant")


def _calls(raw: msgspec.Raw) -> Iterator[Fields]:
    """The calls of an item: the item itself, or those of a chat message."""
    item = fields_of(raw) or {}
    if text_of(item.get("type")) == "function_call":
        yield item
    for each in items_of(item.get("tool_calls")) or ():
        if (call := fields_of(each)) is not None:
            function = fields_of(call.get("function"))
            yield call if function is None else {**call, "name": function.get("name", ABSENT)}


def _prompt(
    parameters_at: str, parameters: msgspec.Raw | None, at: str, given: msgspec.Raw | None
) -> list[TurnItem]:
    """The turns of a request: its instructions, and its input."""
    instructions = (fields_of(parameters) or {}).get("instructions")
    asked = (fields_of(given) or {}).get("input")
    return [
        *_items(f"/{parameters_at}/instructions", instructions, "system"),
        *_items(f"/{at}/input", asked, "user"),
    ]


def _prompt_of_agent(row: Fields) -> list[TurnItem]:
    """What an agent behind the gateway asked first; [] for other rollouts."""
    conversations = items_of((fields_of(row.get(CALLS)) or {}).get("conversations"))
    if not conversations:
        return []
    parameters = (fields_of(conversations[0]) or {}).get("parameters")
    at = f"{CALLS}/conversations/0"
    return _prompt(f"{at}/parameters", parameters, at, conversations[0])


def _turns(row: Fields) -> tuple[str, list[TurnItem]]:
    """The field that has the turns, and the turns themselves."""
    response = fields_of(row.get(RESPONSE)) or {}
    for field, path, raw in (
        (OWN_OUTPUT, f"/{OWN_OUTPUT}", row.get(OWN_OUTPUT)),
        (OUTPUT, f"/{OUTPUT}", row.get(OUTPUT)),
        (RESPONSE, f"/{RESPONSE}/{OUTPUT}", response.get(OUTPUT)),
        (MESSAGES, f"/{MESSAGES}", row.get(MESSAGES)),
    ):
        if items := items_of(raw):
            return field, [TurnItem(f"{path}/{index}", item) for index, item in enumerate(items)]
    return OUTPUT, _items(f"/{OUTPUT}", row.get(OUTPUT), "assistant")


def _items(path: str, raw: msgspec.Raw | None, role: str) -> list[TurnItem]:
    """The items of an array; any other value is a single item."""
    if raw is None or not is_present(raw):
        return []
    items = items_of(raw)
    if items is None:
        return [TurnItem(path, raw, role)]
    return [TurnItem(f"{path}/{index}", item, role) for index, item in enumerate(items)]


def policy_turns(row: Fields) -> tuple[PolicyTurn, ...]:
    """The turns of the policy in a row; none where it has no valid ones."""
    raw = row.get(rows.TURNS)
    if raw is None or not is_present(raw):
        return ()
    try:
        return _TURNS.decode(raw)
    except (msgspec.DecodeError, RecursionError):  # of another program
        return ()


def version_words(version: str, parts: Sequence[VersionPart] = ()) -> str:
    """The version of a turn, or several with arrows between them; empty if it is unknown."""
    names = [part.version or UNKNOWN for part in parts]
    if len(names) > MOST_SHOWN:
        names = [*names[: MOST_SHOWN - 1], "\N{HORIZONTAL ELLIPSIS}", names[-1]]
    return ARROW.join(names) or version


def with_versions(fields: Mapping[str, Scalar], versions: Collection[str]) -> dict[str, Scalar]:
    """The last short fields, with the policy versions of a rollout for a column of the list."""
    found = dict(fields)
    if versions:
        names = list(versions)[:MOST_SHOWN]
        more = [f"+{len(versions) - MOST_SHOWN}"] if len(versions) > MOST_SHOWN else []
        found[rows.VERSIONS] = short(", ".join([*names, *more]), FIELD_LIMIT)
    return dict(list(found.items())[-MOST_FIELDS:])


def shown_versions(turns: Sequence[PolicyTurn], conversation: RowConversation) -> dict[int, str]:
    """The versions by the turn of the conversation that shows them.

    Turns of a response say which item is their last. A transcript has other entries: there the
    replies of the model are the turns, if there are as many of both.
    """
    main = [turn for turn in turns if turn.item is not None]
    if conversation.field == rows.RESPONSE:
        places = [conversation.first + (turn.item or 0) for turn in main]
    else:
        places = [reply.turn for reply in conversation.replies()] if main else []
    if len(places) != len(main):
        return {}
    shown = {
        place: version_words(turn.version, turn.parts)
        for place, turn in zip(places, main, strict=True)
    }
    return {place: version for place, version in shown.items() if version}


def with_turn_versions(views: Iterable[V], versions: Mapping[int, str]) -> list[V]:
    """The views of turns or steps, with the versions that are known by their index."""
    return [
        msgspec.structs.replace(view, version=versions[view.index])
        if view.index in versions
        else view
        for view in views
    ]
