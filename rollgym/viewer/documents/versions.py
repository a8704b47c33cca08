"""The policy versions of a row's turns, and at which turns of its conversation they are shown."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from rollgym.records.version import PolicyTurn, VersionPart
from rollgym.rollouts import rows
from rollgym.viewer.documents.conversation import RowConversation
from rollgym.viewer.documents.texts import short
from rollgym.viewer.summary import FIELD_LIMIT, MOST_FIELDS, Scalar
from rollgym.viewer.values import Fields, is_present
from rollgym.viewer.view import StepView, TurnView

V = TypeVar("V", TurnView, StepView)
_TURNS = msgspec.json.Decoder(tuple[PolicyTurn, ...])
ARROW = " \N{RIGHTWARDS ARROW} "
UNKNOWN = "unknown"
MOST_SHOWN = 4


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
