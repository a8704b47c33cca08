"""What a web rollout says beside its steps: verdict, last page, recordings, task and run.

Rows may come from other programs, and the findings of a judge from a later version: a value that
does not have the expected shape is shown as JSON.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rollgym.viewer.documents.sections import (
    MOST_FIELDS,
    field_of,
)
from rollgym.viewer.documents.texts import child, cut
from rollgym.viewer.values import Fields, fields_of, is_present, raw_of, read
from rollgym.viewer.view import (
    FIELD_TEXT_LIMIT,
    FieldView,
    SectionView,
)
from webgym.models.assessment import BlockingResult, CriterionResult
from webgym.tasks.task import Rubric
from webgym.trajectory.plain import SCREENSHOTS
from webgym.viewing.records import (
    AttemptRecord,
    FinalPage,
    TrajectoryRecord,
)

VIDEO = "video"


_FINDING = msgspec.json.Decoder(CriterionResult)


_BLOCKING = msgspec.json.Decoder(BlockingResult)


_ROW_FIELDS = (
    "task_id", "website", "domain", "subdomain", "difficulty", "definite_answer", "verifier",
)  # fmt: skip


_RUBRIC = "evaluator_reference"


_ELSEWHERE = frozenset(("task_name", _RUBRIC))


_RUN_FIELDS = ("model", "interaction_mode", "max_steps", "ending", "split", "start_url", "session")


_USUAL = {field.name: field.default for field in msgspec.structs.fields(TrajectoryRecord)}
"""The defaults, which journals leave out, so that no pointer leads to them."""


def judge_section(
    evaluation: msgspec.Raw, path: str, judgments: Mapping[int, str], seen: Sequence[int]
) -> SectionView | None:
    """The verdict at the pointer `path`.

    `seen` are the steps whose screenshots the judge saw, `judgments` why it did or did not.
    """
    found = fields_of(evaluation) or {}
    fields = list(_verdict(found, path))
    if seen:
        steps = ", ".join(f"step {index + 1}" for index in sorted(seen))
        fields.append(_words("screenshots judged", steps))
    fields += [_words(f"step {index + 1}", why) for index, why in sorted(judgments.items())]
    return SectionView("Judge", tuple(fields[:MOST_FIELDS]), verdict=True) if fields else None


def final_section(final: FinalPage | None) -> SectionView | None:
    """The page after the last action; its screenshot is the last turn."""
    if final is None:
        return None
    page, picture = final.seen, final.picture
    fields = [_words("title", page.title), _words("url", page.url)]
    if picture is not None:
        fields.append(_words("screenshot", f"{SCREENSHOTS}/{picture.name[:2]}/{picture.name}"))
    return SectionView("Final page", tuple(fields))


def recordings_section(recordings: Mapping[str, str]) -> SectionView | None:
    """Where the recordings of the session are; the video is also the last turn."""
    fields = []
    for kind, name in recordings.items():
        file = f"{SCREENSHOTS}/{name[:2]}/{name}"
        words = _words(kind, file)
        fields.append(words if kind == VIDEO else msgspec.structs.replace(words, file=file))
    return SectionView("Recordings", tuple(fields[:MOST_FIELDS])) if fields else None


def task_section(task: msgspec.Raw, path: str) -> SectionView | None:
    """The task's row at the pointer `path`: known fields first, then the others."""
    row = fields_of(task) or {}
    known = [name for name in _ROW_FIELDS if name in row]
    others = [name for name in row if name not in _ROW_FIELDS and name not in _ELSEWHERE]
    fields = [
        field_of(name, row[name], child(path, name)) for name in known if is_present(row[name])
    ]
    if _RUBRIC in row:
        fields.append(_rubric(row[_RUBRIC], child(path, _RUBRIC)))
    fields += [field_of(name, row[name], child(path, name)) for name in others]
    return SectionView("Task", tuple(fields[:MOST_FIELDS])) if fields else None


def run_section(attempt: AttemptRecord[Any], path: str) -> SectionView:
    """The settings of the rollout; `path` is the pointer to its trajectory."""
    values = [(name, getattr(attempt.trajectory, name)) for name in _RUN_FIELDS]
    fields = [
        field_of(name, raw_of(value), "" if value == _USUAL[name] else child(path, name))
        for name, value in values
        if value
    ]
    fields += [
        _words(name, str(number))
        for name, number in (
            ("trajectory_index", attempt.task),
            ("repeat", attempt.repeat),
            ("attempt", attempt.attempt),
        )
    ]
    if why := attempt.outcome.why:
        fields.append(_words(attempt.outcome.status, why))
    return SectionView("Run", tuple(fields), folded=True)


def _verdict(found: Fields, path: str) -> Iterator[FieldView]:
    for name, raw in found.items():
        at = child(path, name)
        if name == "criteria" and (criteria := fields_of(raw)) is not None:
            for criterion, finding in criteria.items():
                yield _finding(criterion, finding, child(at, criterion))
        elif name == "blocking" and (blocking := read(raw, _BLOCKING)) is not None:
            yield _words(name, f"{blocking.verdict}: {blocking.reason}", at)
        else:
            yield field_of(name, raw, at)


def _finding(criterion: str, raw: msgspec.Raw, path: str) -> FieldView:
    finding = read(raw, _FINDING)
    if finding is None:
        return field_of(criterion, raw, path)
    facts = (
        f"{fact.verdict}: {fact.fact}" + (f" ({fact.reason})" if fact.reason else "")
        for fact in finding.facts
    )
    return _words(criterion, "\n".join((f"{finding.verdict}: {finding.reason}", *facts)), path)


def _rubric(raw: msgspec.Raw, path: str) -> FieldView:
    try:
        rubric = Rubric.of(msgspec.json.decode(raw))
    except (ValueError, RecursionError):
        return field_of(_RUBRIC, raw, path)
    return _words("rubric", "\n".join(rubric.facts), path)


def _words(name: str, text: str, path: str = "") -> FieldView:
    return FieldView(name, cut(text, FIELD_TEXT_LIMIT, path))
