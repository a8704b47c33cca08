"""The screenshots of an episode as evidence: which there are, and which the judge gets to see.

An episode often shows the same picture many times. Each is looked at once, at the last step that
shows it. Of those that matter the most relevant are kept, up to a bound; the last screenshot is
always among them, because it shows how the episode ended.
"""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rollgym.records import VerifierError
from rollgym.store import BlobRef, BlobStore, StorageError
from webgym.browser.contract.answers import PageInfo, Picture
from webgym.models.judging.replies import Relevance
from webgym.trajectory import Image, Step
from webgym.trajectory.plain import SCREENSHOTS


class Exhibit(msgspec.Struct, frozen=True):
    """A screenshot, the step it was seen at, and the page that it shows."""

    step: int
    image: Image
    page: PageInfo


class Shown(msgspec.Struct, frozen=True):
    """An exhibit with its picture, as a chat carries it."""

    exhibit: Exhibit
    data_url: str


class Choice(msgspec.Struct, frozen=True):
    """The exhibits to judge by, in order, and of every step why its screenshot is one or not."""

    exhibits: tuple[Exhibit, ...]
    judgments: dict[int, str]

    @property
    def step_ids(self) -> tuple[int, ...]:
        return tuple(exhibit.step for exhibit in self.exhibits)


class Album:
    """The screenshots that are kept under a save path."""

    def __init__(self, save_path: Path) -> None:
        self._blobs = BlobStore(save_path / SCREENSHOTS)

    async def show(self, exhibit: Exhibit) -> Shown:
        """The exhibit with its picture. Raises VerifierError where that is not there any more."""
        try:
            data = await asyncio.to_thread(self._blobs.get, BlobRef(exhibit.image.name, 0))
        except (StorageError, ValueError) as error:
            raise VerifierError(
                f"the screenshot of step {exhibit.step} cannot be judged: {error}"
            ) from error
        return Shown(exhibit, data_url(Picture(exhibit.image.media_type, data)))


def data_url(picture: Picture) -> str:
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode()}"


def distinct_exhibits(steps: Sequence[Step]) -> tuple[Exhibit, ...]:
    """Every picture once, at the last step that shows it, in the order of the steps."""
    pictured = [index for index, step in enumerate(steps) if step.observation.screenshot]
    last_seen: dict[str, Exhibit] = {}
    for index in pictured:
        step = steps[index]
        image = step.observation.screenshot
        if image is None or (step.same_as_next_screenshot and index != pictured[-1]):
            continue
        last_seen.pop(image.name, None)
        last_seen[image.name] = Exhibit(index, image, step.observation.page)
    return tuple(last_seen.values())


def choose(
    steps: Sequence[Step],
    exhibits: Sequence[Exhibit],
    relevance: Mapping[int, Relevance],
    most: int,
) -> Choice:
    """Which exhibits the judge gets, at most so many. `relevance` is by step; the last needs none.

    Of equally relevant ones the later are kept: they show what came of the earlier.
    """
    last, earlier = exhibits[-1], exhibits[:-1]
    relevant = [exhibit for exhibit in earlier if relevance[exhibit.step].relevance > 0]
    relevant.sort(key=lambda exhibit: (relevance[exhibit.step].relevance, exhibit.step))
    kept = relevant[-(most - 1) :] if most > 1 else []
    judgments = _judgments(steps, exhibits)
    for exhibit in earlier:
        found = relevance[exhibit.step]
        crowded_out = exhibit in relevant and exhibit not in kept
        beyond = f"; left out, for {most} others matter more" if crowded_out else ""
        judgments[exhibit.step] = f"relevance {found.relevance} of 3: {found.reason}{beyond}"
    judgments[last.step] = "the last screenshot is always judged"
    return Choice(tuple(exhibit for exhibit in exhibits if exhibit in (*kept, last)), judgments)


def _judgments(steps: Sequence[Step], exhibits: Sequence[Exhibit]) -> dict[int, str]:
    """What is to be said of the steps whose pictures are judged at other steps, or not there."""
    shown_at = [exhibit.step for exhibit in exhibits]
    judged_at = {exhibit.image.name: exhibit.step for exhibit in exhibits}
    judgments: dict[int, str] = {}
    for index, step in enumerate(steps):
        image = step.observation.screenshot
        if image is None:
            judgments[index] = "there is no screenshot"
        elif index not in shown_at:
            later = judged_at.get(image.name)
            where = "the next step" if later is None else f"step {later}"
            judgments[index] = f"the same screenshot as at {where}"
    return judgments
