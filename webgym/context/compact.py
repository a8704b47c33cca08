"""The compact format: a short prompt for small models, and one line as the reply.

    system     the lines that are understood
    user       Page:
               button "Walrus"
               button "Lemon"
               Task: Click on the "Lemon" button.
    assistant  click "Lemon"
    …          more worked turns
    user       Page:
               Text: Your profile
               textbox "Name" = "Ada"
               button "Save"
               Task: Enter "Ada" as the name and save.
               Done: type "Ada" into "Name"

The page is in `labelled_page`, the lines that a reply consists of are in `compact_lines`.

*Worked turns* use words that do not occur in the task or on the page: a word that occurs is
replaced by another. So a worked turn that a model copies names no element, and is rejected.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from rollgym.records.failure import cut_text
from webgym.actions.space import Action
from webgym.browser.contract.commands import InteractionMode
from webgym.context.compact_lines import find_line, line_grammar, read_line, write_line
from webgym.context.formats import (
    Chat,
    ChatImage,
    ChatTurn,
    ObservationKind,
    ParsedReply,
    PromptFormat,
    chat_of,
)
from webgym.context.labelled_page import LabelledPage
from webgym.context.page_text import escape_control_tokens, escape_tags
from webgym.context.page_view import AgentObservation, Round, write_incidents
from webgym.context.parsers.loose_json import Tolerances
from webgym.context.parsers.reply import SplitReply, read_reply_with, require_reply
from webgym.context.settings import ContextSettings
from webgym.tasks.task import WebTask

FEEDBACK_CHARACTERS = 500

_LEGEND = (
    'Actions: click "…", hover "…", type "…" into "…", select "…" in "…", press "…", '
    'scroll down, scroll up, back, wait, answer "…".'
)


class _WorkedTurn(msgspec.Struct, frozen=True):
    """A turn that shows how to reply. In its texts, {0} and {1} stand for words."""

    task: str
    page: tuple[str, ...]
    reply: str
    done: str = ""


_WORKED_TURNS = (
    _WorkedTurn(
        'Click on the "{0}" button.',
        ('textbox "{7}"', 'button "{1}"', 'button "{0}"'),
        'click "{0}"',
    ),
    _WorkedTurn(
        'Click on the link "{4}".',
        ('link "{5}"', 'link "{4}"', 'link "{7}"'),
        'click "{4}"',
    ),
    _WorkedTurn(
        'Enter "{6}" into the text field and press {3}.',
        ('textbox "{2}"', 'button "{3}"'),
        'type "{6}" into "{2}"',
    ),
    _WorkedTurn(
        'Enter "{6}" into the text field and press {3}.',
        ('textbox "{2}" = "{6}"', 'button "{3}"'),
        'click "{3}"',
        'type "{6}" into "{2}"',
    ),
)
_WORDS = ("Lemon", "Walrus", "Otter", "Violin", "cactus", "igloo", "Bamboo", "tiger")
_MORE_WORDS = ("Quartz", "Falcon", "Origami", "Tundra", "Saffron", "Zeppelin", "Marzipan", "Geyser")


class CompactFormat(PromptFormat):
    """One line per element, one line as the reply."""

    modes: ClassVar[tuple[InteractionMode, ...]] = ("set_of_marks",)
    observations: ClassVar[tuple[ObservationKind, ...]] = ("text", "both")
    has_grammar: ClassVar[bool] = True

    def write_chat(
        self,
        settings: ContextSettings,
        task: WebTask,
        past: Sequence[Round],
        current: AgentObservation,
    ) -> Chat:
        asked = " ".join(escape_control_tokens(task.task_name).split())
        page = list(LabelledPage(current).lines(task.task_name, settings.page_characters))
        done = [step for step in map(_done, past) if step][-settings.window :]
        happened = [*write_incidents(current.incidents), *_problem(past, current)]
        words = _words("\n".join([asked, *page, *done, *happened]))
        shots = [turn for each in _worked_turns(done) for turn in _shown(each, words)]
        text = _page_text(page, asked, done if settings.window else [], happened)
        image = ChatImage.of(current) if settings.shows_image else None
        before, after = (text, "") if image is None else ("", text)
        return chat_of(
            [ChatTurn("system", _LEGEND), *shots, ChatTurn("user", before, image, after)]
        )

    def read_reply(
        self,
        text: str,
        settings: ContextSettings,
        past: Sequence[Round],
        current: AgentObservation,
    ) -> ParsedReply:
        page = LabelledPage(current)

        def read(parts: SplitReply, fields: dict[str, object], tolerances: Tolerances) -> Action:
            require_reply(parts, "one line")
            fields["action"] = line = find_line(parts.said, tolerances)
            action = read_line(line, page, tolerances)
            fields["action"] = write_line(action, page)
            return action

        return read_reply_with(read, text)

    def grammar(self, settings: ContextSettings, task: WebTask, current: AgentObservation) -> str:
        return "\n".join(line_grammar(LabelledPage(current)))


COMPACT = CompactFormat()


def _page_text(page: Sequence[str], task: str, done: Sequence[str], happened: Sequence[str]) -> str:
    return "\n".join(
        [
            "Page:",
            *page,
            f"Task: {task}",
            *(f"Done: {each}" for each in done),
            *(f"Problem: {each}" for each in happened),
        ]
    )


def _worked_turns(done: Sequence[str]) -> list[_WorkedTurn]:
    """The worked turns, last those of an episode that is as far: models follow these the most."""
    return sorted(_WORKED_TURNS, key=lambda turn: bool(turn.done) == bool(done))


def _shown(turn: _WorkedTurn, words: Sequence[str]) -> list[ChatTurn]:
    done = [turn.done.format(*words)] if turn.done else []
    page = [line.format(*words) for line in turn.page]
    asked = _page_text(page, turn.task.format(*words), done, [])
    return [ChatTurn("user", asked), ChatTurn("assistant", turn.reply.format(*words))]


def _words(seen: str) -> list[str]:
    """The words of the worked turns; each one that is seen elsewhere is replaced by another."""
    seen = seen.casefold()
    spare = (f"{word}{'x' * count}" for count in range(1, 100) for word in _WORDS)
    free = (word for word in (*_MORE_WORDS, *spare) if word.casefold() not in seen)
    return [word if word.casefold() not in seen else next(free, word) for word in _WORDS]


def _done(past: Round) -> str:
    """The reply of a past round as it was understood, if its action was carried out."""
    step = past.step
    if step.response is None or step.action is None or step.action.problem is not None:
        return ""
    return escape_tags(str(step.response.fields.get("action", "")))


def _problem(past: Sequence[Round], current: AgentObservation) -> list[str]:
    """Why the last reply was not carried out."""
    if current.feedback is None:
        return []
    action = past[-1].step.action if past else None
    said = action.problem.message if action and action.problem else current.feedback
    return [escape_tags(cut_text(" ".join(said.split()), FEEDBACK_CHARACTERS))]
