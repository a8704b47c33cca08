"""The parts of a reply before its call, by their headings.

A heading stands at the start of a line and ends with a colon. What it is about follows on the same
line or on the next ones, up to the next heading. No part is needed to act, so none is refused: what
is missing or written otherwise is noted.
"""

import re

from webgym.context.parsers.errors import Tolerances
from webgym.context.parsers.loose_json import UnreadableError, read_whole
from webgym.context.settings import PromptVersion

MEMORY_AND_PROGRESS = "Memory and Progress"
HEADINGS = (MEMORY_AND_PROGRESS, "Memory", "Progress", "Intention", "Action")
_BY_NAME = {heading.lower(): heading for heading in HEADINGS}
_LONGEST_HEADING = 60
_ORNAMENT = " \t*_#>-"
_FENCED = re.compile(r"```(?:json)?\n(.*)\n?```", re.DOTALL)


def read_sections(head: str, version: PromptVersion, tolerances: Tolerances) -> dict[str, object]:
    """Of memory, progress, intention and action those that the reply has."""
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
    """The text before the first heading, and that after each one; a second one is only text."""
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
    """Memory and progress of the JSON object; of anything else the text, as memory."""
    fenced = _FENCED.fullmatch(body)
    if fenced is not None:
        tolerances.note("memory_code_fence")
        body = fenced[1]
    if not body:
        return {}
    forgiven = Tolerances()
    try:
        written = read_whole(body, forgiven)
    except UnreadableError:
        tolerances.note("memory_not_json")
        return {"memory": body}
    tolerances.note(*(f"memory_{name}" for name in forgiven.names))
    match written:
        case {"memory": memory, "progress": progress, **others} if not others:
            return {"memory": memory, "progress": progress}
        case {"memory": memory, **others} if not others:
            tolerances.note("no_progress")
            return {"memory": memory}
        case _:
            tolerances.note("memory_keys")
            return {"memory": written}
