"""A reply of the model, parsed: its parts, and the one action it asks for or why it has none.

    <think>…</think>
    Memory and Progress: {"memory": …, "progress": …}
    Intention: …
    Action: …
    <tool_call>
    {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [512, 340]}}
    </tool_call>

A reply of exactly this grammar has no tolerances. A reply that differs without leaving doubt is
parsed too, and each difference is named in `tolerances`. Any other reply is a `failure`, in words
for the model: no action is guessed.

*Thinking* stands between `<think>` and `</think>`. Chat templates often write the first tag, so
that a reply starts inside it: everything before a lone `</think>` is thinking too. After a
`<think>` that is never closed there is only thinking.

*Sections.* A heading stands at the start of a line and ends with a colon; its text follows up to
the next heading. No section is required to act, so none is rejected: missing or differently written
ones are noted.
"""

import re
from collections.abc import Callable
from itertools import islice

import msgspec

from webgym.actions.space import Action, ActionError
from webgym.context.formats import ParsedReply
from webgym.context.parsers.blocks import OPENING, find_call
from webgym.context.parsers.calls import read_call
from webgym.context.parsers.loose_json import ReplyError, Tolerances, UnreadableError, read_whole
from webgym.context.settings import ContextSettings

_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
MOST_TAGS = 1_000
"""A text with more tags is thinking that does not end."""
LONGEST_REPLY = 50_000
"""The characters that a reply may have beside its thinking. Parsing blocks the event loop."""


class SplitReply(msgspec.Struct, frozen=True):
    """A reply in two parts: the thinking, and the rest (`said`).

    `tagged`: there was a tag. `lone`: a closing one had no opening one. `unclosed`: the reply ended
    while thinking.
    """

    thinking: str
    said: str
    tagged: bool = False
    lone: bool = False
    unclosed: bool = False


def split_thinking(text: str) -> SplitReply:
    """Split a reply. All of its text except the tags is in one of the two parts."""
    pieces: list[tuple[str, bool]] = []
    depth = at = thought_until = 0
    tags = list(islice(_TAG.finditer(text), MOST_TAGS + 1))
    if len(tags) > MOST_TAGS:
        return SplitReply(text, "", tagged=True, unclosed=True)
    for tag in tags:
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
    # Joined by line breaks, because adjacent pieces could form a new tag.
    return SplitReply(
        thinking="\n".join(thought).strip(),
        said="\n".join(said).strip(),
        tagged=len(pieces) > 1,
        lone=thought_until > 0,
        unclosed=depth > 0,
    )


def without_thinking(text: str) -> str:
    """The reply without its thinking, as the history shows it."""
    return split_thinking(text).said


MEMORY_AND_PROGRESS = "Memory and Progress"
HEADINGS = (MEMORY_AND_PROGRESS, "Memory", "Progress", "Intention", "Action")
_BY_NAME = {heading.lower(): heading for heading in HEADINGS}
_LONGEST_HEADING = 60
_ORNAMENT = " \t*_#>-"
_FENCED = re.compile(r"```(?:json)?\n(.*)\n?```", re.DOTALL)


def read_sections(head: str, version: str, tolerances: Tolerances) -> dict[str, object]:
    """The sections that the reply has, of memory, progress, intention and action."""
    leading, bodies = _by_heading(head, tolerances)
    fields: dict[str, object] = {}
    if not bodies and leading:
        tolerances.note("no_headings")
        return {"action": leading}
    if leading:
        tolerances.note("leading_text")
    if MEMORY_AND_PROGRESS in bodies:
        fields |= _memory(bodies.pop(MEMORY_AND_PROGRESS), tolerances)
    elif "Memory" in bodies or "Progress" in bodies:
        tolerances.note("memory_not_json")
    fields |= {heading.lower(): body for heading, body in bodies.items() if body}
    wanted = ("memory", "intention", "action") if version == "complete" else ("action",)
    tolerances.note(*(f"no_{name}" for name in wanted if name not in fields))
    return fields


def _by_heading(head: str, tolerances: Tolerances) -> tuple[str, dict[str, str]]:
    """The text before the first heading, and after each heading; a repeated heading is text."""
    parts: dict[str, list[str]] = {}
    current: list[str] = []
    leading = current
    for line in head.split("\n"):
        heading, rest = _heading(line)
        if not heading or heading in parts:
            current.append(line)
            continue
        if not line.startswith(f"{heading}:"):
            tolerances.note("heading_style")
        current = parts[heading] = [rest]
    bodies = {heading: "\n".join(lines).strip() for heading, lines in parts.items()}
    return "\n".join(leading).strip(), bodies


def _heading(line: str) -> tuple[str, str]:
    name, colon, _ = line[:_LONGEST_HEADING].partition(":")
    heading = _BY_NAME.get(name.strip(_ORNAMENT).lower(), "") if colon else ""
    rest = line[len(name) + 1 :]
    return heading, rest if rest[:1] not in "*_" else rest.lstrip(_ORNAMENT)


def _memory(body: str, tolerances: Tolerances) -> dict[str, object]:
    """Memory and progress of the JSON object; any other text is the memory."""
    fenced = _FENCED.fullmatch(body)
    if fenced is not None:
        tolerances.note("memory_code_fence")
        body = fenced[1]
    if not body:
        return {}
    tolerated = Tolerances()
    try:
        written = read_whole(body, tolerated)
    except UnreadableError:
        tolerances.note("memory_not_json")
        return {"memory": body}
    tolerances.note(*(f"memory_{name}" for name in tolerated.names))
    match written:
        case {"memory": memory, "progress": progress, **others} if not others:
            return {"memory": memory, "progress": progress}
        case {"memory": memory, **others} if not others:
            tolerances.note("no_progress")
            return {"memory": memory}
        case _:
            tolerances.note("memory_keys")
            return {"memory": written}


ReadAction = Callable[[SplitReply, dict[str, object], Tolerances], Action]
"""Reads the action of a reply. It adds the other parts to the fields, and the differences to the
tolerances. It raises ReplyError and ActionError."""


def read_reply_with(read: ReadAction, text: str) -> ParsedReply:
    """The reply whose action `read` reads, in any format. Every text has a result."""
    tolerances = Tolerances()
    parts = split_thinking(well_formed(text))
    fields: dict[str, object] = {"thinking": parts.thinking} if parts.thinking else {}
    action, failure = None, None
    try:
        action = read(parts, fields, tolerances)
    except (ReplyError, ActionError) as error:
        failure = str(error)
    return ParsedReply(fields=fields, action=action, failure=failure, tolerances=tolerances.names)


def parse_reply(text: str, settings: ContextSettings) -> ParsedReply:
    """Parse a reply. Every text has a result, in a time that is bounded."""

    def read(parts: SplitReply, fields: dict[str, object], tolerances: Tolerances) -> Action:
        if parts.lone and not settings.thinking:
            tolerances.note("lone_think_tag")
        head, action = parts.said.partition(OPENING)[0], None
        try:
            require_reply(parts)
            found = find_call(parts.said, tolerances)
            head = found.head
            if settings.thinking and not parts.tagged:
                _require_nothing_after(tolerances)
            action = read_call(found.call, settings.interaction_mode, tolerances)
        finally:
            if len(head) <= LONGEST_REPLY and (head.strip() or action is not None):
                fields |= read_sections(head, settings.prompt_version, tolerances)
        return action

    return read_reply_with(read, text)


def require_reply(parts: SplitReply, wanted: str = f"one {OPENING} block") -> None:
    """Raises ReplyError unless the reply has a text of a length that can be read."""
    if parts.unclosed:
        raise ReplyError(
            "the reply ends inside <think>: think less, close it with </think>, then reply"
        )
    if not parts.said:
        what = "only thinking" if parts.thinking or parts.lone else "empty"
        raise ReplyError(f"the reply was {what}: end it with {wanted}")
    if len(parts.said) > LONGEST_REPLY:
        raise ReplyError(
            f"the reply has {len(parts.said)} characters beside its thinking: write at most "
            f"{LONGEST_REPLY}"
        )


def _require_nothing_after(tolerances: Tolerances) -> None:
    """Without tags the text may be unfinished thinking, and its call only an idea."""
    if "trailing_text" in tolerances.names:
        raise ReplyError("the reply goes on after its call: let the call be the last of it")


def well_formed(text: str) -> str:
    """The text with replacement characters for what no encoding can write."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
