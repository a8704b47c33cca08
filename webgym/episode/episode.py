"""An episode: open the start page, then observe, decide and act, step by step.

A step consists of an observation, the model's response and its action. One request to the browser
carries out the action and observes the next page. A reply that cannot be parsed, and an action that
the page prevents, are reported to the model with the next page; both are steps like others.

An episode ends with an answer, after its last step, when the task says that it is over, when the
site blocks the agent, or when the agent is stuck. A task that is over adds a last step in place of
the agent's answer. A judge or the task's own check scores the episode. A failure raises a
RolloutError; the log has the steps up to it.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from urllib.parse import urldefrag

import msgspec

from rollgym.records import EnvironmentSessionError, RolloutKey, TaskError, VerifierError
from webgym.actions.space import Action, DragBy, GiveAnswer, GoBack, Mark, Point, Upload, Viewport
from webgym.browser.contract.answers import Box, CommandFailure, Element, StepAnswer
from webgym.browser.contract.commands import Command, UploadCoords, UploadFile, UploadId, VisitPage
from webgym.browser.contract.errors import NavigationRefusedError, UnknownElementError
from webgym.context.page_view import AgentObservation, write_numbers
from webgym.episode.interfaces import (
    Agent,
    EpisodeFiles,
    EpisodeMonitor,
    EpisodeSettings,
    WebSession,
)
from webgym.episode.log import EpisodeLog, PhaseTimes, observation_of
from webgym.tasks.task import Split, WebTask
from webgym.trajectory.records import (
    BLOCKED,
    INVALID_URL,
    MAX_STEPS,
    TASK_OVER,
    UNPARSED,
    ActionRecord,
    Image,
    Observation,
    StoredFile,
    task_over,
)


class WebEpisode:
    """An attempt of `agent` at `task`, from `start_url` on."""

    def __init__(
        self,
        *,
        key: RolloutKey,
        task: WebTask,
        start_url: str,
        conversation: str,
        seed: int,
        agent: Agent,
        settings: EpisodeSettings,
        screenshots: EpisodeFiles,
        monitor: EpisodeMonitor,
        times: PhaseTimes,
    ) -> None:
        """Every phase is added to `times`."""
        self.log = EpisodeLog(agent.context.window)
        self.ending = "failed"
        self.final_page: Observation | None = None
        """The page after the last action, where no step observed it."""
        self._times = times
        self._key = key
        self._task = task
        self._start_url = start_url
        self._conversation = conversation
        self._seed = seed
        self._agent = agent
        self._settings = settings
        self._screenshots = screenshots
        self._monitor = monitor
        self._going_back = GoingBack(settings.split)
        self._timings: dict[str, float] = {}

    async def run(self, session: WebSession) -> None:
        """Run the episode to its `ending`. Raises RolloutError where it fails."""
        self._step_number = 1
        answer = await self._open(session)
        self._going_back.start(answer.page.url)
        feedback: str | None = None
        for number in range(1, self._settings.steps_for(self._task) + 1):
            self._step_number, self._timings = number, {}
            current = await self._observe(answer, feedback)
            if number > 1 and await self._is_over():
                return
            if await self._is_blocked(current):
                record = ActionRecord(key=BLOCKED, text="the site blocks the agent")
                self.log.act(record, self._timings)
                self.ending = "blocked"
                return
            action, feedback = await self._decide(current)
            if isinstance(action, GiveAnswer):
                self.ending = "answer"
                return
            if action is None:
                continue
            command = action.to_command(viewport_of(current))
            if isinstance(action, Upload) and action.file not in self._task.files:
                feedback = self._feedback(action, current, unknown_file(self._task))
                continue
            command = await self._with_files(command)
            answer = await self._carry_out(session, command, "execute")
            feedback = self._feedback(action, current, answer.error, answer.elements)
            again = self._going_back.note(action, current.page.url, answer)
            if self._going_back.is_stuck:
                self.ending = "goback"
                await self._keep_final_page(answer)
                return
            if again is not None:
                answer = await self._carry_out(session, again, "navigate")
                feedback = NOTHING_BEFORE
        self.ending, self._timings = MAX_STEPS, {}
        if not await self._is_over(answer):
            await self._keep_final_page(answer)

    async def _open(self, session: WebSession) -> StepAnswer:
        answer = await self._carry_out(session, VisitPage(self._start_url), "navigate")
        problem = answer.error
        if problem is None:
            return answer
        await self._observe(answer, None)
        record = ActionRecord(key=INVALID_URL, text=f"open {self._start_url}", problem=problem)
        self.log.act(record, self._timings)
        self.ending = INVALID_URL
        if problem.type == NavigationRefusedError.type:
            raise TaskError(
                f"the browser server does not let sessions open {self._start_url}: "
                f"{problem.message}"
            )
        raise EnvironmentSessionError(
            f"the start page {self._start_url} cannot be opened: {problem.message}"
        )

    async def _with_files(self, command: Command | None) -> Command | None:
        """The command with the content of the task's files. Raises TaskError."""
        if not isinstance(command, UploadCoords | UploadId):
            return command
        try:
            files = [
                UploadFile(file.name, await asyncio.to_thread(self._task.read_file, file.name))
                for file in command.files
            ]
        except (OSError, ValueError) as error:
            raise TaskError(f"a file of the task cannot be read: {error}") from error
        return msgspec.structs.replace(command, files=tuple(files))

    async def _carry_out(
        self, session: WebSession, command: Command | None, phase: str
    ) -> StepAnswer:
        with self._phase(phase):
            return await session.step(
                command, self._agent.observe, within=self._settings.operation_timeout
            )

    async def _observe(self, answer: StepAnswer, feedback: str | None) -> AgentObservation:
        """Record an observation."""
        observation = await self._record(answer)
        image = observation.screenshot
        current = AgentObservation(
            page=answer.page,
            picture=answer.screenshot,
            blob=image.name if image else "",
            elements=answer.elements or (),
            tree=answer.tree,
            feedback=feedback,
            incidents=answer.incidents,
        )
        self.log.observe(current, observation)
        return current

    async def _record(self, answer: StepAnswer) -> Observation:
        """The record of a page. Screenshot and files are stored before anything refers to them."""
        picture, image = answer.screenshot, None
        files: list[StoredFile] = []
        if picture is None and not answer.downloads:
            return observation_of(answer, None)
        with self._phase("screenshot"):
            if picture is not None:
                ending = "." + picture.media_type.removeprefix("image/")
                name = (await self._screenshots.put(picture.data, ending)).name
                image = Image(name, picture.media_type, answer.page.width, answer.page.height)
            for each in answer.downloads:
                stored = await self._screenshots.put(each.data, _extension(each.name))
                files.append(StoredFile(each.name, each.url, stored.name, stored.size))
        return observation_of(answer, image, tuple(files))

    async def _keep_final_page(self, answer: StepAnswer) -> None:
        """Keep the page after the last action, which no step observes."""
        self.final_page = await self._record(answer)

    async def _is_over(self, unobserved: StepAnswer | None = None) -> bool:
        """Whether the task is over; then the episode ends with a step in place of an answer.

        `unobserved` is the page after the last allowed action.
        """
        evaluator = self._agent.evaluator
        reason = await evaluator.find_end(self._task, self._conversation, self._start_url)
        if reason is None:
            return False
        if unobserved is not None:
            await self._observe(unobserved, None)
        self.log.act(task_over(reason), self._timings)
        self.ending = TASK_OVER
        return True

    async def _is_blocked(self, current: AgentObservation) -> bool:
        if not self._settings.watch_for_blocking or current.picture is None:
            return False
        rounds = self.log.rounds
        if rounds and rounds[-1].observation.blob == current.blob:
            return False
        try:
            with self._phase("reward"):
                return await self._agent.evaluator.screenshot_is_blocked(current.picture)
        except VerifierError as error:
            if error.retryable is False:
                raise
            return False  # the judge is asked again at the end; the episode goes on

    async def _decide(self, current: AgentObservation) -> tuple[Action | None, str | None]:
        """The action, and the feedback to the model where there is none."""
        start = self._times.elapsed
        with self._phase("model"):
            decision = await self._agent.decide(
                self._task,
                self.log.rounds,
                current,
                conversation=self._conversation,
                seed=self._seed,
            )
        response = msgspec.structs.replace(decision.response, start=start)
        self.log.respond(response, decision.tokens)
        action = decision.action
        if action is None:
            reason = decision.response.parse_failure or "the reply has no action"
            self.log.act(unparsed(reason), self._timings)
            return None, reason
        self.log.act(record_of(action, current), self._timings)
        return action, None

    def _feedback(
        self,
        action: Action,
        current: AgentObservation,
        problem: CommandFailure | None,
        elements: Sequence[Element] | None = None,
    ) -> str | None:
        """What the model reads of a problem; `elements` are those of the next page."""
        if problem is None:
            return None
        record = record_of(action, current)
        self.log.amend(msgspec.structs.replace(record, problem=problem))
        feedback = f"`{action}` was not carried out: {problem.message}"
        if problem.type == UnknownElementError.type and elements:
            feedback += f"; the numbers of the elements are now {write_numbers(elements)}"
        return feedback

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Report a phase, and count its seconds in the step and in the episode."""
        self._monitor.running(self._key, name, self._step_number)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            ended = loop.time()
            self._timings[name] = self._timings.get(name, 0.0) + ended - began
            self._times.add(name, began, ended, f"step {self._step_number}")


MOST_IN_A_ROW = 3


NOTHING_BEFORE = "there is no page before this one; the start page was opened again"


class GoingBack:
    """Counts how often an agent goes back in a row and stays on the start page.

    The history of the browser decides whether there is a page to go back to. If there is none, the
    start page is opened again. If an entry of the history only forwards to the start page again,
    going back is as useless. The third time in a row the agent is stuck: in training that ends the
    episode with reward 0.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._start = ""
        self._in_a_row = 0

    def start(self, start: str) -> None:
        """Set the start page, as the browser names it after all redirects."""
        self._start = start

    def note(self, action: Action, url: str, answer: StepAnswer) -> Command | None:
        """Count this action on the page `url`; returns the command that opens the start page."""
        if not isinstance(action, GoBack) or answer.error is not None:
            self._in_a_row = 0
            return None
        has_moved = answer.result.get("moved") is not False
        stays = url == answer.page.url and _page(url) == _page(self._start)
        self._in_a_row = self._in_a_row + 1 if stays or not has_moved else 0
        return None if has_moved else VisitPage(self._start)

    @property
    def is_stuck(self) -> bool:
        return self._split == "train" and self._in_a_row >= MOST_IN_A_ROW


def _page(url: str) -> str:
    """The address without its fragment, unless the fragment names a view of an application."""
    address, fragment = urldefrag(url)
    return url if fragment.startswith(("/", "!")) else address


_EXTENSION = re.compile(r"\.[a-z0-9]{1,8}")


def _extension(name: str) -> str:
    """The extension of a file's name, where a stored file can have it."""
    suffix = PurePath(name).suffix.lower()
    return suffix if _EXTENSION.fullmatch(suffix) else ""


PARSE_FAILURE = "parse_failure"


def unknown_file(task: WebTask) -> CommandFailure:
    """Why a file that the task does not have was not uploaded."""
    names = ", ".join(task.files) or "none"
    return CommandFailure("unknown_file", f"the task has no file of this name; it has {names}")


def record_of(action: Action, current: AgentObservation) -> ActionRecord:
    """The record of an action."""
    pixel, box = _target(getattr(action, "target", None), current)
    to_pixel, _ = _target(getattr(action, "to", None), current)
    if isinstance(action, DragBy) and pixel is not None:
        to_pixel = action.end(pixel, viewport_of(current))
    return ActionRecord(
        key=action.key,
        arguments=action.arguments,
        text=str(action),
        pixel=pixel,
        box=box,
        to_pixel=to_pixel,
    )


def unparsed(reason: str) -> ActionRecord:
    """The record of a reply without an action."""
    return ActionRecord(
        key=UNPARSED, text="the reply has no action", problem=CommandFailure(PARSE_FAILURE, reason)
    )


def viewport_of(current: AgentObservation) -> Viewport:
    return Viewport(current.page.width, current.page.height)


def _target(target: object, current: AgentObservation) -> tuple[tuple[int, int] | None, Box | None]:
    match target:
        case Point():
            return target.pixel(viewport_of(current)), None
        case Mark():
            box = next(
                (each.box for each in current.elements if _has_number(each, target.id)), None
            )
            if box is None:
                return None, None
            middle = round(box.x + box.width / 2), round(box.y + box.height / 2)
            return middle, box
        case _:
            return None, None


def _has_number(element: Element, number: int) -> bool:
    """Whether a number is the element's, or that of one of its options."""
    return element.id == number or any(option.id == number for option in element.options)
