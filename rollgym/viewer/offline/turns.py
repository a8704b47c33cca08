"""Turns of a conversation on a page."""

from rollgym.viewer.offline.blocks import Album, folded, note, text_block
from rollgym.viewer.offline.markup import Element, element, group
from rollgym.viewer.view import Call, Image, Text, Turn

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))


def turn_block(turn: Turn, album: Album) -> Element:
    """One turn: who it is, its reasoning folded, what is said, and the calls it makes."""
    heading = f"{turn.role}: {turn.tool}" if turn.tool else turn.role
    return group(
        "article",
        (
            element("h3", heading, " ", element("span", str(turn.index), class_="index")),
            folded("Reasoning", text_block(turn.reasoning)) if turn.reasoning else None,
            *(_part(part, turn, album) for part in turn.parts),
            *map(_call, turn.calls),
        ),
        class_=f"turn {turn.role}" if turn.role in _ROLES else "turn",
    )


def _part(part: Text | Image, turn: Turn, album: Album) -> Element:
    if isinstance(part, Image):
        return album.picture(part, "a picture of the conversation")
    return text_block(part, "text code" if turn.role == "tool" else "text")


def _call(call: Call) -> Element:
    return element(
        "div",
        element("p", "calls ", element("code", call.name)),
        note("The arguments are not JSON.") if call.malformed else None,
        text_block(call.arguments, "text code"),
        class_="call",
    )
