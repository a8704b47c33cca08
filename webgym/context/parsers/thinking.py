"""Where the thinking of a reply ends and the reply begins.

Thinking stands between `<think>` and `</think>`. Chat templates often write the first tag
themselves, so that a reply starts inside it: all before a lone `</think>` is thinking too. After a
`<think>` that nothing closes there is only thinking.
"""

import re

import msgspec

_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


class Parted(msgspec.Struct, frozen=True):
    """A reply in two: what was thought, and what was said.

    `tagged`: there was a tag. `lone`: a closing one had no opening one. `unclosed`: the reply ended
    while thinking.
    """

    thinking: str
    said: str
    tagged: bool = False
    lone: bool = False
    unclosed: bool = False


def part_thinking(text: str) -> Parted:
    """Part a reply. All of its text but the tags is in one of the two."""
    pieces: list[tuple[str, bool]] = []
    depth = at = thought_until = 0
    for tag in _TAG.finditer(text):
        pieces.append((text[at : tag.start()], depth > 0))
        at = tag.end()
        if not tag[1]:
            depth += 1
        elif depth:
            depth -= 1
        else:
            thought_until = len(pieces)
    pieces.append((text[at:], depth > 0))
    before, after = pieces[:thought_until], pieces[thought_until:]
    thought = [piece for piece, _ in before] + [piece for piece, inside in after if inside]
    said = [piece for piece, inside in after if not inside]
    # On lines of their own, because pieces side by side could make a new tag.
    return Parted(
        thinking="\n".join(thought).strip(),
        said="\n".join(said).strip(),
        tagged=len(pieces) > 1,
        lone=thought_until > 0,
        unclosed=depth > 0,
    )


def without_thinking(text: str) -> str:
    """What was said, as histories show it."""
    return part_thinking(text).said
