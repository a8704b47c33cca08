"""The first difference between rollouts of one task.

Turns are compared by role, texts, and calls with their arguments; steps by action, page and
response. Ids and times are ignored, because they differ between any two rollouts. Documents are
read in portions, and only up to the first difference.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from typing import Literal, TypeAlias, TypeVar

import msgspec

from rollgym.viewer.view import PictureView, RolloutDocument, StepView, Text, TurnView

PORTION = 50
Content: TypeAlias = tuple[object, ...]
Unit = TypeVar("Unit", TurnView, StepView)


class FirstDifference(msgspec.Struct, frozen=True):
    """The first index at which the rollouts differ (None if they do not), and what differs.

    If one rollout ends before the others, the index is its length.
    """

    unit: Literal["turn", "step"]
    index: int | None
    words: str


def first_difference(documents: Sequence[RolloutDocument]) -> FirstDifference:
    """Compare documents by their steps if one of them has any, else by their turns."""
    if any(document.steps(0, 1) for document in documents):
        steps = [_read(document.steps) for document in documents]
        return _first("step", documents, steps, _step_content, _step_words)
    turns = [_read(document.turns) for document in documents]
    return _first("turn", documents, turns, _turn_content, _turn_words)


def _read(portion: Callable[[int, int], list[Unit]]) -> Iterator[Unit]:
    start = 0
    while units := portion(start, PORTION):
        yield from units
        start += len(units)


def _first(
    unit: Literal["turn", "step"],
    documents: Sequence[RolloutDocument],
    read: Sequence[Iterator[Unit]],
    content_of: Callable[[RolloutDocument, Unit], Content],
    words_of: Callable[[Unit | None], tuple[str, str]],
) -> FirstDifference:
    for index, units in enumerate(zip_longest(*read)):
        contents = [
            None if one is None else content_of(document, one)
            for document, one in zip(documents, units, strict=True)
        ]
        other = next((at for at, content in enumerate(contents) if content != contents[0]), None)
        if other is not None:
            names = _names(documents, 0, other)
            return FirstDifference(
                unit, index, _sentence(names, *map(words_of, (units[0], units[other])))
            )
    return FirstDifference(unit, None, "")


def _sentence(names: tuple[str, str], one: tuple[str, str], other: tuple[str, str]) -> str:
    """What each of two rollouts does, and what differs if both do the same."""
    if one[0] != other[0]:
        return f"{names[0]} {one[0]}, {names[1]} {other[0]}"
    return f"{names[0]} {one[0]}, {names[1]} too, but {one[1]}"


def _names(documents: Sequence[RolloutDocument], *indexes: int) -> tuple[str, str]:
    repeats = [documents[index].view().summary.repeat for index in indexes]
    differ = None not in repeats and repeats[0] != repeats[1]
    first, second = (
        f"repeat {repeat}" if differ else f"rollout {index + 1}"
        for index, repeat in zip(indexes, repeats, strict=True)
    )
    return first, second


def _turn_content(document: RolloutDocument, turn: TurnView) -> Content:
    whole = partial(_whole, document)
    return (
        turn.role,
        tuple(
            (part.file, part.note, part.width, part.height)
            if isinstance(part, PictureView)
            else whole(part)
            for part in turn.parts
        ),
        whole(turn.reasoning) if turn.reasoning else None,
        tuple((call.name, whole(call.arguments)) for call in turn.calls),
    )


def _step_content(document: RolloutDocument, step: StepView) -> Content:
    response = None if step.response is None else _whole(document, step.response)
    return step.action, step.url, response


def _whole(document: RolloutDocument, text: Text) -> Content:
    """The content of a text; of one that was cut, a digest of the whole."""
    if text.size <= len(text.text) or not text.path:
        return text.size, text.text
    return text.size, text.text, sha256(document.raw(text.path)).digest()


def _turn_words(turn: TurnView | None) -> tuple[str, str]:
    match turn:
        case None:
            return "has ended", ""
        case TurnView(calls=(_, *_)):
            return f"calls {', '.join(call.name for call in turn.calls)}", "with other arguments"
        case TurnView(role="tool"):
            return f"gets a result of {turn.tool or 'a tool'}", "with another content"
        case TurnView(role="assistant", parts=()):
            return "reasons", "in other words"
        case TurnView(role="assistant"):
            return "answers", "in other words"
        case _:
            return f"has a turn of {turn.role}", "with another text"


def _step_words(step: StepView | None) -> tuple[str, str]:
    if step is None:
        return "has ended", ""
    return (
        f"does {step.action}" if step.action else "does nothing",
        "on another page or with another response",
    )
