"""The chat that asks for the next action: what is remembered, and what is seen now.

    system     what the model is told once
    user       Task, a line for each step that is out of the window, the first round's page
    assistant  the reply of that round, without its thinking
    user       what came of it, the next page
    …
    user       what came of the last reply, the page now, and the memory that the model keeps

*Bounded.* Pages, replies, memory and lines of old steps have limits, so that the size of a chat
depends on the task and on the settings, not on what pages hold or how much a model talks.

*A stable beginning.* A round is written the same way whether it is the current one or a past one,
old steps are only ever appended, and what changes in every chat, the memory, comes at the very end.
So a server that caches prefixes computes anew only what the window has moved over.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence

import msgspec

from webgym.browser.contract.answers import Picture
from webgym.context.inert import inert, quoted, shortened, without_control_tokens
from webgym.context.page_text import CLOSING, OPENING, write_header, write_page
from webgym.context.parsers import without_thinking
from webgym.context.prompts import system_prompt
from webgym.context.settings import ContextSettings
from webgym.context.sight import Round, Sight
from webgym.tasks import WebTask
from webgym.trajectory import Step

REPLY_CHARACTERS = 8_000
MEMORY_CHARACTERS = 4_000
FEEDBACK_CHARACTERS = 1_000
NOTE_CHARACTERS = 300
URL_CHARACTERS = 120
OLDER_STEPS = 100

_TASK = re.compile(r"^Task:\n", re.MULTILINE)
_AFTER_TASK = re.compile(
    r"\n\n(?:Earlier steps(?: \([0-9]+ before these left out\))?:|Step [0-9]+\.)\n"
)


class Chat(msgspec.Struct, frozen=True):
    """A chat as OpenAI's API takes it. `recorded` has the names of images in place of images."""

    messages: tuple[dict[str, object], ...]
    recorded: tuple[dict[str, object], ...]


class _Image(msgspec.Struct, frozen=True):
    picture: Picture
    blob: str

    @property
    def data_url(self) -> str:
        return f"data:{self.picture.media_type};base64,{b64encode(self.picture.data).decode()}"

    @property
    def blob_url(self) -> str:
        return f"blob:{self.blob}"


class _Turn(msgspec.Struct, frozen=True):
    """A message before its image is written out: text, an image, text."""

    role: str
    text: str
    image: _Image | None = None
    after: str = ""


def build_chat(
    settings: ContextSettings, task: WebTask, past: Sequence[Round], sight: Sight
) -> Chat:
    """The chat that follows on the `past` and shows the `sight`."""
    first = max(0, len(past) - settings.window)
    opening = "\n\n".join(
        [f"Task:\n{without_control_tokens(task.task_name)}", *_older(past, first, sight)]
    )
    turns = [_Turn("system", system_prompt(settings))]
    for number, each in enumerate(past[first:], start=first + 1):
        turns += [_seen(settings, each.sight, number, opening), _replied(each.step)]
        opening = ""
    turns.append(_seen(settings, sight, len(past) + 1, opening, _memory(past)))
    return Chat(
        tuple(_message(turn, turn.image.data_url if turn.image else None) for turn in turns),
        tuple(_message(turn, turn.image.blob_url if turn.image else None) for turn in turns),
    )


def message_text(message: Mapping[str, object]) -> str:
    """The text of a message, without its images."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def read_task(text: str) -> str | None:
    """The task in the text of the first user message; None where there is none."""
    title = _TASK.search(text)
    end = _AFTER_TASK.search(text, title.end()) if title else None
    return text[title.end() : end.start()] if title and end else None


def _seen(
    settings: ContextSettings, sight: Sight, number: int, opening: str, memory: str = ""
) -> _Turn:
    lines = [f"Step {number}."]
    if sight.feedback:
        feedback = shortened(sight.feedback, FEEDBACK_CHARACTERS)
        lines.append(f"What came of your last reply: {inert(feedback)}")
    image = _Image(sight.picture, sight.blob) if settings.shows_image and sight.picture else None
    if settings.shows_image:
        lines.append("Screenshot:" if image else "There is no screenshot of this page.")
    text = "\n".join(lines)
    if settings.shows_text:
        page = write_page(sight, settings.interaction_mode, settings.page_characters)
        page = f"{OPENING}\n{page}\n{CLOSING}"
    else:
        page = write_header(sight.page)
    before = f"{opening}\n\n{text}" if opening else text
    return _Turn("user", before, image, f"{page}\n{memory}" if memory else page)


def _replied(step: Step) -> _Turn:
    """The reply as it was, less its thinking; of a very long one the beginning and the end."""
    said = without_thinking(step.response.raw_response if step.response else "")
    if len(said) > REPLY_CHARACTERS:
        half = REPLY_CHARACTERS // 2
        left_out = len(said) - 2 * half
        said = f"{said[:half]}\n… ({left_out} characters left out)\n{said[-half:]}"
    return _Turn("assistant", without_control_tokens(said) or "(no reply)")


def _older(past: Sequence[Round], first: int, sight: Sight) -> list[str]:
    """The steps before the window, in one block."""
    if first == 0:
        return []
    start = max(0, first - OLDER_STEPS)
    title = f"Earlier steps ({start} before these left out):" if start else "Earlier steps:"
    sights = [*(each.sight for each in past), sight]
    lines = [
        _line(index + 1, past[index], sights[index + 1].page.url) for index in range(start, first)
    ]
    return ["\n".join([title, *lines])]


def _line(number: int, past: Round, led_to: str) -> str:
    """Where a step was, what was wanted and done, and what came of it."""
    step = past.step
    fields = step.response.fields if step.response else {}
    wanted = _note(fields.get("intention") or fields.get("action") or "")
    done = _note(step.action.text) if step.action else ""
    parts = [
        f"Step {number} at {_url(past.sight.page.url)}",
        f"Intention: {wanted}" if wanted else "",
        f"Action: {done}" if done else "",
        f"Result: {_result(step, past.sight.page.url, led_to)}",
    ]
    return " | ".join(filter(None, parts))


def _result(step: Step, here: str, led_to: str) -> str:
    if step.response is not None and step.response.parse_failure:
        return f"no action, because {_note(step.response.parse_failure)}"
    if step.action is not None and step.action.problem is not None:
        return f"it failed: {_note(step.action.problem.message)}"
    if led_to != here:
        return f"led to {_url(led_to)}"
    return "nothing changed on the screen" if step.same_as_next_screenshot else "done"


def _memory(past: Sequence[Round]) -> str:
    """What the model noted in its last reply that had notes."""
    for each in reversed(past):
        fields = each.step.response.fields if each.step.response else {}
        kept = {name: fields[name] for name in ("memory", "progress") if name in fields}
        if "memory" in kept:
            return f"\nYour memory so far: {shortened(quoted(kept), MEMORY_CHARACTERS)}"
    return ""


def _note(text: object) -> str:
    return inert(shortened(" ".join(str(text).split()), NOTE_CHARACTERS))


def _url(url: str) -> str:
    return quoted(shortened(url, URL_CHARACTERS))


def _message(turn: _Turn, image_url: str | None) -> dict[str, object]:
    if image_url is None:
        text = f"{turn.text}\n{turn.after}" if turn.after else turn.text
        return {"role": turn.role, "content": text}
    image = {"type": "image_url", "image_url": {"url": image_url}}
    parts = [{"type": "text", "text": turn.text}, image, {"type": "text", "text": turn.after}]
    return {"role": turn.role, "content": parts}
