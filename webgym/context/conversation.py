"""The chat that asks for the next action: the history, and the current page.

    system     the prompt
    user       the task, a line for each step that is out of the window, the first round's page
    assistant  the reply of that round, without its thinking
    user       the result of that reply, the next page
    …
    user       the result of the last reply, the current page, and the memory that the model keeps

*Bounded.* Pages, replies, memory and lines of old steps have limits, so that the size of a chat
depends on the task and on the settings, not on the size of pages or replies.

*A stable prefix.* A round is written the same way whether it is the current one or a past one, old
steps are only ever appended, and the memory, which changes in every chat, comes at the very end. So
a server that caches prefixes computes only the part that the window has moved over.
"""

import re
from collections.abc import Callable, Sequence

from rollgym.records.failure import cut_text
from webgym.context.formats import Chat, ChatImage, ChatTurn, ParsedReply, PromptFormat, chat_of
from webgym.context.page_text import (
    CLOSING,
    OPENING,
    escape_control_tokens,
    escape_other_tags,
    escape_tags,
    quote_json,
    write_header,
    write_page,
)
from webgym.context.page_view import AgentObservation, Round, write_incidents
from webgym.context.parsers import parse_reply, without_thinking
from webgym.context.prompts import system_prompt
from webgym.context.settings import ContextSettings
from webgym.tasks.task import WebTask
from webgym.trajectory.records import Step

REPLY_CHARACTERS = 8_000
MEMORY_CHARACTERS = 4_000
FEEDBACK_CHARACTERS = 1_000
NOTE_CHARACTERS = 300
URL_CHARACTERS = 120
OLDER_STEPS = 100

_TASK = re.compile(r"^Task:\n", re.MULTILINE)
_AFTER_TASK = re.compile(
    r"\n\n(?:Files that you can upload: [^\n]+\n|"
    r"Earlier steps(?: \([0-9]+ before these left out\))?:|Step [0-9]+\.)\n"
)


def build_chat(
    settings: ContextSettings, task: WebTask, past: Sequence[Round], current: AgentObservation
) -> Chat:
    """The chat with the `past` rounds and the `current` observation."""
    first = max(0, len(past) - settings.window)
    opening = "\n\n".join(
        [
            *task_lines(task),
            *([f"Files that you can upload: {', '.join(task.files)}"] if task.files else []),
            *older_steps(past, first, current),
        ]
    )
    turns = [ChatTurn("system", system_prompt(settings))]
    for index, each in enumerate(past[first:], start=first):
        page = _page_turn(settings, each.observation, past[:index], opening)
        turns += [page, reply_turn(each.step)]
        opening = ""
    turns.append(_page_turn(settings, current, past, opening, _memory(past)))
    return chat_of(turns)


def task_lines(task: WebTask) -> list[str]:
    """The task as the first message has it."""
    return [f"Task:\n{escape_control_tokens(task.task_name)}"]


def read_task(text: str) -> str | None:
    """The task in the text of the first user message; None if it has none."""
    title = _TASK.search(text)
    end = _AFTER_TASK.search(text, title.end()) if title else None
    return text[title.end() : end.start()] if title and end else None


def _page_turn(
    settings: ContextSettings,
    current: AgentObservation,
    past: Sequence[Round],
    opening: str,
    memory: str = "",
) -> ChatTurn:
    """The page that came after the `past` rounds."""
    before = past[-1] if past else None
    lines = [f"Step {len(past) + 1}."]
    if current.feedback:
        feedback = cut_text(current.feedback, FEEDBACK_CHARACTERS)
        is_ours = before is not None and _failure(before.step) == current.feedback
        escaped = escape_other_tags(feedback) if is_ours else escape_tags(feedback)
        lines.append(f"What came of your last reply: {escaped}")
    lines += incident_lines(current)
    image = ChatImage.of(current) if settings.shows_image else None
    if settings.shows_image:
        lines.append("Screenshot:" if image else "There is no screenshot of this page.")
    text = "\n".join(lines)
    if settings.shows_text:
        page = write_page(current, settings.interaction_mode, settings.page_characters)
        page = f"{OPENING}\n{page}\n{CLOSING}"
    else:
        page = write_header(current.page)
    text = f"{opening}\n\n{text}" if opening else text
    return ChatTurn("user", text, image, f"{page}\n{memory}" if memory else page)


def incident_lines(current: AgentObservation) -> list[str]:
    """What happened to the page by itself, a line for each."""
    return [f"What happened: {escape_tags(each)}" for each in write_incidents(current.incidents)]


def reply_turn(step: Step) -> ChatTurn:
    """The reply without its thinking; of a very long one only the beginning and the end."""
    reply = without_thinking(step.response.raw_response if step.response else "")
    if len(reply) > REPLY_CHARACTERS:
        half = REPLY_CHARACTERS // 2
        left_out = len(reply) - 2 * half
        reply = f"{reply[:half]}\n… ({left_out} characters left out)\n{reply[-half:]}"
    return ChatTurn("assistant", escape_control_tokens(reply) or "(no reply)")


def older_steps(past: Sequence[Round], first: int, current: AgentObservation) -> list[str]:
    """The steps before the window, in one block of lines."""
    if first == 0:
        return []
    start = max(0, first - OLDER_STEPS)
    title = f"Earlier steps ({start} before these left out):" if start else "Earlier steps:"
    observations = [*(each.observation for each in past), current]
    lines = [
        _line(index + 1, past[index], observations[index + 1].page.url)
        for index in range(start, first)
    ]
    return ["\n".join([title, *lines])]


def _line(number: int, past: Round, led_to: str) -> str:
    """One step in a line: its address, its intention, its action and its result."""
    step = past.step
    fields = step.response.fields if step.response else {}
    intention = _note(fields.get("intention") or fields.get("action") or "")
    action = _note(step.action.text) if step.action else ""
    parts = [
        f"Step {number} at {_url(past.observation.page.url)}",
        f"Intention: {intention}" if intention else "",
        f"Action: {action}" if action else "",
        f"Result: {_result(step, past.observation.page.url, led_to)}",
    ]
    return " | ".join(filter(None, parts))


def _result(step: Step, here: str, led_to: str) -> str:
    if failure := _failure(step):
        return f"no action, because {_note(failure, escape_other_tags)}"
    if step.action is not None and step.action.problem is not None:
        return f"it failed: {_note(step.action.problem.message)}"
    if led_to != here:
        return f"led to {_url(led_to)}"
    return "nothing changed on the screen" if step.same_as_next_screenshot else "done"


def _memory(past: Sequence[Round]) -> str:
    """The memory in the model's last reply that has one."""
    for each in reversed(past):
        fields = each.step.response.fields if each.step.response else {}
        kept = {name: fields[name] for name in ("memory", "progress") if name in fields}
        if "memory" in kept:
            return f"\nYour memory so far: {cut_text(quote_json(kept), MEMORY_CHARACTERS)}"
    return ""


def _failure(step: Step) -> str | None:
    """Why the reply was not an action, in our words."""
    return step.response.parse_failure if step.response else None


def _note(text: object, escape: Callable[[str], str] = escape_tags) -> str:
    return escape(cut_text(" ".join(str(text).split()), NOTE_CHARACTERS))


def _url(url: str) -> str:
    return quote_json(cut_text(url, URL_CHARACTERS))


class ToolCallFormat(PromptFormat):
    """Our own format: one call of one tool, after the parts that `prompt_version` names."""

    def write_chat(
        self,
        settings: ContextSettings,
        task: WebTask,
        past: Sequence[Round],
        current: AgentObservation,
    ) -> Chat:
        return build_chat(settings, task, past, current)

    def read_reply(
        self,
        text: str,
        settings: ContextSettings,
        past: Sequence[Round],
        current: AgentObservation,
    ) -> ParsedReply:
        return parse_reply(text, settings)


TOOL_CALLS = ToolCallFormat()
