"""The view of a step of a trajectory: the page, the prompt, the response and the action.

The texts of a prompt are cut shorter than others, because each prompt repeats most of the one
before it. The pointer of a text leads to the whole of it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from rollgym.servers.final_answer import split_thinking
from rollgym.viewer.documents.sections import field_of
from rollgym.viewer.documents.texts import child, cut, json_text, short
from rollgym.viewer.documents.turns import TurnItem, TurnReader
from rollgym.viewer.values import raw_of
from rollgym.viewer.view import (
    FIELD_TEXT_LIMIT,
    TEXT_LIMIT,
    CallView,
    PictureView,
    StepView,
    Text,
    TurnView,
)
from webgym.trajectory.plain import SCREENSHOTS
from webgym.trajectory.records import ActionRecord
from webgym.trajectory.records import Image as Screenshot
from webgym.viewing.drawing import draw_marks
from webgym.viewing.records import (
    FinalPage,
    RecordNames,
    StepRecord,
    ViewedObservation,
    ViewedResponse,
)

_BLOB = "blob:"
_BLOB_NAME = re.compile(r"[0-9a-f]{64}\.(?:png|jpeg|jpg|webp)")
_CUT_SHORT = "length"


class StepMatches(NamedTuple):
    """Which of the two turns of a step show a text, and whether the step does."""

    turns: tuple[int, ...]
    anywhere: bool


class StepReader:
    """Makes the steps and the turns of one trajectory."""

    def __init__(
        self, names: RecordNames, mode: str, keypoints: Sequence[int], *, has_images: bool
    ) -> None:
        """`mode` is the interaction mode; `keypoints` are the steps that the judge saw.

        Without `has_images` the folder of the screenshots is unknown.
        """
        self._names = names
        self._mode = mode
        self._keypoints = frozenset(keypoints)
        self._has_images = has_images
        self._decoder = msgspec.json.Decoder(names.step)

    def read(self, raw: msgspec.Raw) -> StepRecord:
        """Raises ValueError."""
        return self._decoder.decode(raw)

    def step(self, raw: msgspec.Raw, index: int) -> StepView:
        """The view of a step; for an unreadable one, the problem."""
        path = self.path(index)
        try:
            record = self.read(raw)
        except (ValueError, RecursionError) as error:
            return StepView(index, path, problem=f"cannot read this step: {error}")
        return self._shown(record, index, path)

    def find(self, raw: msgspec.Raw, wanted: str) -> StepMatches:
        """Where a lower-case text occurs in a step; nowhere in an unreadable one."""
        try:
            record = self.read(raw)
        except (ValueError, RecursionError):
            return StepMatches((), False)
        shown = (_observation_texts(record), _reply_texts(record), _other_texts(record))
        seen, said, beside = (any(wanted in text.lower() for text in texts) for texts in shown)
        turns = tuple(number for number, has in enumerate((seen, said)) if has)
        return StepMatches(turns, seen or said or beside)

    def path(self, index: int) -> str:
        return f"{self._names.trajectory}/steps/{index}"

    def turns(self, raw: msgspec.Raw, index: int) -> tuple[TurnView, TurnView]:
        """A step as two turns: the observation, and the reply with its action as a call."""
        path = self.path(index)
        try:
            record = self.read(raw)
        except (ValueError, RecursionError) as error:
            said = (cut(f"cannot read this step: {error}", TEXT_LIMIT, path),)
            return TurnView(2 * index, "user", path), TurnView(
                2 * index + 1, "assistant", path, said
            )
        return (
            TurnView(
                2 * index,
                "user",
                f"{path}/observation",
                self._observation_parts(record.observation, index),
            ),
            self._reply(record, index, path),
        )

    def final_turn(self, final: FinalPage, index: int, path: str) -> TurnView:
        """The page after the last action."""
        words = cut(f"Final page: {final.seen.title} ({final.seen.url})", TEXT_LIMIT)
        picture = self._screenshot(final.picture)
        return TurnView(index, "user", path, (words, picture) if picture else (words,))

    def video_turn(self, name: str, index: int, path: str) -> TurnView:
        """The video of the session, which is an animated picture."""
        words = cut("Video of the session", TEXT_LIMIT)
        return TurnView(index, "user", path, (words, self._picture(name)))

    def _shown(self, record: StepRecord, index: int, path: str) -> StepView:
        seen, action, said, reward = (
            record.observation, record.action, record.response, record.reward,
        )  # fmt: skip
        drawing = draw_marks(record, self._mode)
        return StepView(
            index=index,
            path=path,
            title=seen.page.title,
            url=seen.page.url,
            screenshot=self._screenshot(seen.screenshot),
            action=action.text or action.key if action else "",
            action_key=action.key if action else "",
            arguments=_arguments(action, path),
            marks=drawing.marks,
            unplaced=drawing.unplaced,
            problem=_problem(action),
            notes=tuple(_notes(record)),
            fields=self._fields(said, path),
            response=cut(said.raw_response, TEXT_LIMIT, f"{path}/response/raw_response")
            if said
            else None,
            prompt=self._prompt(said, path),
            tree=self._tree(seen, path),
            parse_failure=(said.parse_failure or "") if said else "",
            reward=reward.reward if reward else None,
            judged=index in self._keypoints or (reward is not None and reward.submit),
            judgment=(reward.submission_judgment or "") if reward else "",
            same_as_next=record.same_as_next_screenshot,
            timings=record.timings,
            input_tokens=said.usage.input_tokens if said else None,
            output_tokens=said.usage.output_tokens if said else None,
        )

    def _tree(self, seen: ViewedObservation, path: str) -> Text | None:
        if not seen.tree:
            return None
        return cut(seen.tree, TEXT_LIMIT, f"{path}/observation/{self._names.tree}")

    def _observation_parts(
        self, seen: ViewedObservation, index: int
    ) -> tuple[Text | PictureView, ...]:
        words = cut(f"Step {index + 1}: {seen.page.title} ({seen.page.url})", TEXT_LIMIT)
        picture = self._screenshot(seen.screenshot)
        return (words, picture) if picture else (words,)

    def _reply(self, record: StepRecord, index: int, path: str) -> TurnView:
        said, action = record.response, record.action
        at = f"{path}/response/raw_response"
        thought, answer = split_thinking(said.raw_response) if said else ("", "")
        parts: list[Text | PictureView] = [cut(answer, TEXT_LIMIT, at)] if answer else []
        if problem := _problem(action):
            parts.append(cut(problem, TEXT_LIMIT, f"{path}/action/problem"))
        calls: tuple[CallView, ...] = ()
        if action is not None:
            arguments = _arguments(action, path) or Text("", 0)
            calls = (CallView(action.key, arguments, f"step-{index + 1}"),)
        reasoning = cut(thought, TEXT_LIMIT, at) if thought else None
        return TurnView(2 * index + 1, "assistant", path, tuple(parts), reasoning, calls)

    def _fields(self, said: ViewedResponse | None, path: str) -> dict[str, Text]:
        at = f"{path}/response/{self._names.fields}"
        fields = said.fields if said else {}
        return {name: field_of(name, raw, child(at, name)).value for name, raw in fields.items()}

    def _prompt(self, said: ViewedResponse | None, path: str) -> tuple[TurnView, ...]:
        at = f"{path}/response/raw_prompt"
        asked = said.raw_prompt if said else ()
        reader = TurnReader(lambda _: "", has_folder=False)
        turns = (
            reader.turn(TurnItem(child(at, number), raw), number)
            for number, raw in enumerate(asked)
        )
        return tuple(
            msgspec.structs.replace(turn, parts=tuple(map(self._part, turn.parts)))
            for turn in turns
        )

    def _part(self, part: Text | PictureView) -> Text | PictureView:
        """A part of a prompt: a text cut shorter, or a screenshot in place of its name."""
        if isinstance(part, Text):
            return msgspec.structs.replace(part, text=part.text[:FIELD_TEXT_LIMIT])
        return self._picture(part.note.removeprefix(_BLOB)) if part.note else part

    def _screenshot(self, stored: Screenshot | None) -> PictureView | None:
        if stored is None:
            return None
        return self._picture(stored.name, stored.width, stored.height)

    def _picture(
        self, name: str, width: int | None = None, height: int | None = None
    ) -> PictureView:
        """A screenshot file of the source; any other name is shown as a note."""
        if not _BLOB_NAME.fullmatch(name):
            return PictureView(width=width, height=height, note=short(name))
        file = f"{SCREENSHOTS}/{name[:2]}/{name}"
        if not self._has_images:
            return PictureView(width=width, height=height, note=file)
        return PictureView(file=file, width=width, height=height)


def _observation_texts(record: StepRecord) -> Iterator[str]:
    """The texts of the observation's turn."""
    yield record.observation.page.title
    yield record.observation.page.url


def _reply_texts(record: StepRecord) -> Iterator[str]:
    """The texts of the reply's turn."""
    if record.response is not None:
        yield record.response.raw_response
    if (action := record.action) is not None:
        yield from (action.key, msgspec.json.encode(action.arguments).decode(), _problem(action))


def _other_texts(record: StepRecord) -> Iterator[str]:
    """The texts that only the step shows, without its prompt, which repeats other steps."""
    yield record.observation.tree or ""
    yield record.action.text if record.action else ""
    yield (record.response.parse_failure or "") if record.response else ""
    yield (record.reward.submission_judgment or "") if record.reward else ""
    yield from _notes(record)


def _arguments(action: ActionRecord | None, path: str) -> Text | None:
    if action is None or not action.arguments:
        return None
    return json_text(raw_of(action.arguments), TEXT_LIMIT, f"{path}/action/arguments")


def _problem(action: ActionRecord | None) -> str:
    problem = action.problem if action else None
    return f"{problem.type}: {problem.message}" if problem else ""


def _notes(record: StepRecord) -> Iterator[str]:
    """Incidents and irregularities of a step, in the order in which they happen."""
    for incident in record.observation.incidents:
        yield f"{incident.kind}: {incident.detail}"
    for file in record.observation.downloads:
        yield f"file: {file.name} ({file.size} bytes) is {SCREENSHOTS}/{file.blob[:2]}/{file.blob}"
    if not record.observation.settled:
        yield "the page was still loading when it was observed"
    said = record.response
    if said is not None:
        if said.finish_reason == _CUT_SHORT:
            yield "the reply was cut at the limit of tokens"
        for tolerance in said.tolerances:
            yield f"tolerated when the reply was parsed: {tolerance}"
    if record.action is None:
        yield "the rollout failed during this step"
    if record.reward is not None and record.reward.step_reward is not None:
        yield f"step reward: {record.reward.step_reward:g}"
